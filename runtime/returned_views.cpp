// `return &%v` promises a view of the original: after `writeback %x <- %x.1` a view of %x.1 has to become the
// same view of %x, or the caller would hold memory that nothing else shares.
#include "runtime/returned_views.h"

#include "graphopt/error.h"

namespace graphopt::runtime {
namespace {
using ir::Mark;
using ir::Op;
using ir::Operand;
using ir::Value;

/// The declared value each result is written back to; the first if several are.
std::map<const Value *, const Value *> writebackTargets(const ir::Graph &graph) {
  std::map<const Value *, const Value *> targets;
  for (const auto &op : graph.body())
    if (op->kind == Op::Kind::Writeback)
      targets.try_emplace(op->operands().at(1).value, op->operands().at(0).value);
  return targets;
}

} // namespace

Returns planReturns(const ir::Graph &graph) {
  ir::AliasInfo aliases(graph);
  auto targets = writebackTargets(graph);
  Returns returns;
  for (const auto &[source, target] : targets)
    if (aliases.base(source)->isDeclared())
      returns.copyFirst.insert(source);

  const std::vector<Operand> &operands = graph.returnOp()->operands();
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].kind != Operand::Kind::Value || operands[i].mark != Mark::Alias)
      continue;
    ReturnedView view;
    view.base = aliases.base(operands[i].value);
    auto target = targets.find(view.base);
    bool committed = !view.base->isDeclared() && target != targets.end();
    view.root = committed ? target->second : view.base;
    view.chain = aliases.chain(operands[i].value);
    returns.needed.push_back(view.root);
    for (const ir::ViewStep &step : view.chain)
      step.op->forEachValue([&](const Operand &operand) { returns.needed.push_back(operand.value); });
    returns.views.emplace(i, std::move(view));
  }
  return returns;
}

} // namespace graphopt::runtime
