// Bodies never nest, so a value is outer exactly when its definition stands in another block.
#include "passes/regions.h"

#include <algorithm>

namespace graphopt::passes {
namespace {

bool has(const std::vector<ir::Operand> &operands, const ir::Value *value) {
  return std::any_of(operands.begin(), operands.end(),
                     [&](const ir::Operand &operand) { return operand.value == value; });
}

void tidy(ir::Op &region) {
  const std::vector<ir::Operand> read = capturesOf(*region.body());
  std::vector<ir::Operand> kept;
  for (const ir::Operand &operand : region.operands())
    if (has(read, operand.value) && !has(kept, operand.value))
      kept.push_back(operand);
  if (kept.size() != region.operands().size())
    region.setOperands(std::move(kept));
}

} // namespace

std::vector<ir::Operand> capturesOf(const ir::Block &body) {
  std::vector<ir::Operand> captures;
  for (const auto &op : body)
    op->forEachValue([&](const ir::Operand &operand) {
      const ir::Op *def = operand.value->def;
      if ((!def || def->parent() != &body) && !has(captures, operand.value))
        captures.push_back(ir::Operand::of(operand.value));
    });
  return captures;
}

void tidyCaptures(ir::Graph &graph) {
  for (ir::Op *op : graph.body().ops())
    if (op->body())
      tidy(*op);
}

} // namespace graphopt::passes
