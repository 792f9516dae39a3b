// One operator of a functional captured graph as a graph of its own: what is probed, and the key of its
// piece.
#pragma once
#include "ir/graph.h"

#include <unordered_map>
#include <vector>

namespace graphopt::passes {

/// Whether a value needs gradients, where that is not said by its type.
using NeedsGrad = std::unordered_map<const ir::Value *, bool>;

struct Unit {
  ir::Graph graph;                   ///< inputs a0, a1 ...: the distinct operands; returns the results
  std::vector<ir::Value *> operands; ///< in the other graph, one an input
};

/// `op` is a call or an update of `graph`, whose body is then written out in the raw form. Types are those of
/// the operands; marks and module paths, which decide nothing, are left out.
Unit unitOf(const ir::Graph &graph, const ir::Op &op, const NeedsGrad &needsGrad);

} // namespace graphopt::passes
