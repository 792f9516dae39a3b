// A write region without its write: what the update of a value is, as prims.
#pragma once
#include "ir/graph.h"

#include <optional>
#include <vector>

namespace graphopt::passes {

/// Makes prims before `update` that compute its results, one value each, of the very type. Nothing, and the
/// graph as it was, when some operator in the region has no rule (draws, sorts ...) or writes through a view
/// that no prim can undo. Uses are not changed.
std::optional<std::vector<ir::Value *>> inlineUpdate(ir::Op &update, ir::Graph &graph);

} // namespace graphopt::passes
