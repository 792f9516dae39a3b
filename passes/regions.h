// Isolated regions (updates and groups): the outer values that a body reads, and those that it is a new
// version of.
#pragma once
#include "ir/graph.h"
#include "ir/op_catalog.h"

#include <vector>

namespace graphopt::passes {

/// The outer values that the ops of `body` read, in order of first use.
std::vector<ir::Operand> capturesOf(const ir::Block &body);

/// Makes the captures of every region true again after values were merged or body ops removed: duplicates and
/// unused ones go.
void tidyCaptures(ir::Graph &graph);

/// The values that an update copies, to write the copies through operators whose schemas tell of it: the
/// program writes those values in place, and raises their versions. Other writes (running statistics) raise
/// none.
std::vector<const ir::Value *> overwrittenBy(const ir::Op &update, const ir::OpCatalog *catalog);

} // namespace graphopt::passes
