// Turns an update without views into the functional operator of the same name, where that gives the same
// tensor.
#pragma once
#include "ir/graph.h"
#include "ir/op_catalog.h"

#include <vector>

namespace graphopt::passes {

/// A call that may take the place of an update: same results, in order.
struct FunctionalCall {
  std::string name;
  std::vector<ir::Operand> operands;
  std::vector<ir::NamedAttr> attrs;
  uint32_t state = 0;
};

/// The call for `update`, or nothing: the operator has no functional form, or that form would differ in
/// dtype, strides or history. `historyMatters`: some of the graph runs with gradients on and some tensor may
/// require one.
std::optional<FunctionalCall> functionalCall(const ir::Op &update, const ir::Graph &graph,
                                             bool historyMatters, const ir::OpCatalog *catalog);

} // namespace graphopt::passes
