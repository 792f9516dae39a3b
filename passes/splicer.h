// Puts pieces into a graph that is being lowered.
#pragma once
#include "ir/splice.h"

#include <string>

namespace graphopt::passes {

class Splicer {
public:
  explicit Splicer(ir::Graph &graph) : graph_(graph) {}

  /// Copies the operators of `piece` before `before`, all under the state numbered `state`. `map` has what
  /// stands for the piece's inputs, and gets everything else; constants that the graph has already are
  /// shared.
  void splice(const ir::Graph &piece, ir::Op *before, uint32_t state, ir::ValueMap &map);

private:
  ir::Value *constant(const ir::Value &value);
  ir::Graph &graph_;
  std::unordered_map<std::string, ir::Value *> constants_; // by type and content
};

} // namespace graphopt::passes
