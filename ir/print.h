// Writes the canonical .gir text: parsing it gives an equal graph, printing that gives the same bytes.
#pragma once
#include "ir/graph.h"

#include <string>

namespace graphopt::ir {

std::string print(const Graph &graph);
/// One op on one line (bodies included when it has one), without a line end: for messages.
std::string print(const Op &op);
std::string print(const Guard &guard); ///< "guard #1 meta(%x) == f32[2, 16]"

} // namespace graphopt::ir
