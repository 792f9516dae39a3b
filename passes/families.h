// What functionalize knows while it walks a raw graph: the newest version of every written tensor, and every
// view of it as it stands on that version.
//
// A family is a base (a declaration, or a result that aliases nothing) and the views of it. A write makes a
// new version of the base; a view is made again on that version by replaying its chain of view operators,
// when it is next used.
#pragma once
#include "ir/alias.h"
#include "ir/graph.h"

#include <functional>
#include <unordered_map>
#include <vector>

namespace graphopt::passes {

/// Views of one base made again on another tensor of the same geometry, each once.
class Replay {
public:
  /// `onto` takes the place of `base`, a base of `aliases`.
  Replay(ir::Graph &graph, const ir::AliasInfo &aliases, const ir::Value *base, ir::Value *onto);
  /// `value` (the base or a view of it with a replayable chain) on the new tensor. Missing steps are inserted
  /// before `before` with the attributes, other operands, ambient state and result types of the originals.
  ir::Value *get(const ir::Value *value, ir::Op *before);
  /// Says that `value` stands on the new tensor already.
  void note(ir::Value *value) { made_[value] = value; }
  int64_t stepsMade() const { return stepsMade_; }

private:
  void makeStep(const ir::Op &step, ir::Value *onto, ir::Op *before);
  ir::Graph &graph_;
  const ir::AliasInfo &aliases_;
  std::unordered_map<const ir::Value *, ir::Value *> made_; // looked up only, never walked
  int64_t stepsMade_ = 0;
};

/// The operands with f(value operand) in place of each value operand, lists included; marks stay.
std::vector<ir::Operand> mapOperands(const std::vector<ir::Operand> &operands,
                                     const std::function<ir::Value *(const ir::Operand &)> &f);

class Families {
public:
  explicit Families(ir::Graph &graph) : graph_(graph), aliases_(graph) {}
  const ir::AliasInfo &aliases() const { return aliases_; }
  /// Whether the base has a version beside itself.
  bool isWritten(const ir::Value *base) const { return newest_.contains(base); }
  /// What a use of the raw `value` at `before` must read.
  ir::Value *fresh(ir::Value *value, ir::Op *before);
  /// A write to the family of `base` made `version`.
  void setVersion(const ir::Value *base, ir::Value *version);
  /// A view operator was given fresh operands: its results stand on the newest version.
  void note(const ir::Op &view);
  int64_t viewsRemade() const;

private:
  ir::Graph &graph_;
  const ir::AliasInfo aliases_; // of the raw graph, as it was before the walk
  std::unordered_map<const ir::Value *, Replay> newest_;
  int64_t remadeBefore_ = 0; // on versions that are no longer the newest
};

} // namespace graphopt::passes
