// Which values share memory, from the & marks: families of views and the chain of views from the base.
//
// A snapshot: it holds until the graph changes.
#pragma once
#include "ir/graph.h"

#include <unordered_map>
#include <vector>

namespace graphopt::ir {

/// One step from a value to a view of it.
struct ViewStep {
  const Op *op;      ///< the view op
  size_t result = 0; ///< which of its results: one of several for chunk, split, unbind
};

class AliasInfo {
public:
  explicit AliasInfo(const Graph &graph);
  /// The value the view chain starts from: a declaration, or a result that aliases nothing. `value` itself
  /// when it is no view. The first of them when a view op has several & operands.
  const Value *base(const Value *value) const;
  bool isView(const Value *value) const { return base(value) != value; }
  /// The views from base(value) to value, first step first; empty for a base.
  std::vector<ViewStep> chain(const Value *value) const;
  /// Whether chain(value), run again on another base, makes the view: every step has exactly one & operand.
  bool hasReplayableChain(const Value *value) const;
  /// True when writing one may change the other: views of one base, of bases that one op mixes, or of
  /// declared values that an `alias` guard says share memory.
  bool mayAlias(const Value *a, const Value *b) const;
  /// Every value that mayAlias `value`, itself included, in order of definition.
  const std::vector<const Value *> &family(const Value *value) const;

private:
  struct Entry {
    const Value *base;
    const Value *parent; // nullptr for a base
    bool replayable;
  };
  void addBase(const Value *value);
  void addViews(const Op &op);
  void join(const Value *a, const Value *b);
  const Value *leader(const Value *value) const; // of the family, a base

  std::unordered_map<const Value *, Entry> entries_;
  std::unordered_map<const Value *, const Value *>
      joined_; // base -> another base of its family, towards the leader
  std::unordered_map<const Value *, std::vector<const Value *>> families_; // by leader
};

} // namespace graphopt::ir
