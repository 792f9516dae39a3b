// The captures of isolated regions (updates and groups): every outer value a body reads, each once.
#pragma once
#include "ir/graph.h"

#include <vector>

namespace graphopt::passes {

/// The outer values that the ops of `body` read, in order of first use.
std::vector<ir::Operand> capturesOf(const ir::Block &body);

/// Makes the captures of every region true again after values were merged or body ops removed: duplicates and
/// unused ones go.
void tidyCaptures(ir::Graph &graph);

} // namespace graphopt::passes
