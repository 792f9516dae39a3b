// All numbers of a graph that may be expressions over syms: read, changed, replaced by their values.
#pragma once
#include "ir/graph.h"

#include <functional>

namespace graphopt::passes {

/// Calls f(Dim &) for every size and stride of every value and every integer of every operator, bodies
/// included, always in the same order.
void changeDims(ir::Graph &graph, const std::function<void(ir::Dim &)> &f);

/// The graph for these values of all its syms; it has none left. Throws a user error when one is missing.
ir::Graph withSizes(const ir::Graph &graph, const std::vector<ir::SymValue> &values);
ir::Type withSizes(ir::Type type, const std::vector<ir::SymValue> &values);

/// Sizes to weigh by, where they are not known: some number in each sym's range.
std::vector<ir::SymValue> usualSizes(const std::vector<ir::Sym> &syms);

} // namespace graphopt::passes
