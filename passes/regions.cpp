// Bodies never nest, so a value is outer exactly when its definition stands in another block.
#include "passes/regions.h"

#include <algorithm>
#include <unordered_map>

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

/// What a copy into new memory copies: how updates take over bases with gaps.
const ir::Value *copiedWhole(const ir::Op &op) {
  if (op.name != "aten.copy_" || op.operands().size() < 2 || !op.operands()[1].isValue())
    return nullptr;
  const ir::Op *def = op.operands()[0].value->def;
  return def && def->parent() == op.parent() && def->name.starts_with("aten.empty") ? op.operands()[1].value
                                                                                    : nullptr;
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

std::vector<const ir::Value *> overwrittenBy(const ir::Op &update, const ir::OpCatalog *catalog) {
  const auto saysThatItWrites = [&](const ir::Op &op) {
    const ir::OpInfo *info = catalog ? catalog->find(op.name) : nullptr;
    return !info || std::ranges::any_of(info->args, &ir::ArgInfo::written);
  };
  std::vector<const ir::Value *> written;
  std::unordered_map<const ir::Value *, const ir::Value *> copied; // by the copy, or a view of it
  for (const auto &inner : *update.body()) {
    if (inner->name == "aten.clone")
      copied[inner->result()] = inner->operands()[0].value;
    if (const ir::Value *source = copiedWhole(*inner);
        source && !copied.contains(inner->operands()[0].value)) {
      copied[inner->operands()[0].value] = source;
      continue;
    }
    inner->forEachValue([&](const ir::Operand &operand) {
      const auto source = copied.find(operand.value);
      if (source == copied.end())
        return;
      const ir::Value *value = source->second;
      if (operand.mark == ir::Mark::Alias)
        for (const ir::Value *view : inner->results())
          copied[view] = value;
      if (operand.mark == ir::Mark::Write && saysThatItWrites(*inner))
        written.push_back(value);
    });
  }
  return written;
}

void tidyCaptures(ir::Graph &graph) {
  for (ir::Op *op : graph.body().ops())
    if (op->body())
      tidy(*op);
}

} // namespace graphopt::passes
