// Versions and replayed views. The alias information is a snapshot of the raw graph and stays valid: the walk
// changes operands and adds operators, but never the results of the raw view operators, which are its keys.
#include "passes/families.h"

#include <graphopt/error.h>

namespace graphopt::passes {

std::vector<ir::Operand> mapOperands(const std::vector<ir::Operand> &operands,
                                     const std::function<ir::Value *(const ir::Operand &)> &f) {
  std::vector<ir::Operand> mapped = operands;
  for (ir::Operand &operand : mapped) {
    if (operand.kind == ir::Operand::Kind::Value)
      operand.value = f(operand);
    else if (operand.kind == ir::Operand::Kind::List)
      operand.items = mapOperands(operand.items, f);
  }
  return mapped;
}

// ---- Replay

Replay::Replay(ir::Graph &graph, const ir::AliasInfo &aliases, const ir::Value *base, ir::Value *onto)
    : graph_(graph), aliases_(aliases) {
  made_[base] = onto;
}

ir::Value *Replay::get(const ir::Value *value, ir::Op *before) {
  if (auto known = made_.find(value); known != made_.end())
    return known->second;
  GO_ASSERT(aliases_.hasReplayableChain(value), "a view without a chain was replayed: " + value->name);
  ir::Value *onto = made_.at(aliases_.base(value));
  for (const ir::ViewStep &step : aliases_.chain(value)) {
    const ir::Value *original = step.op->result(step.result);
    if (!made_.contains(original))
      makeStep(*step.op, onto, before);
    onto = made_.at(original);
  }
  return onto;
}

/// All results of the step at once: chunk, split and unbind give several views.
void Replay::makeStep(const ir::Op &step, ir::Value *onto, ir::Op *before) {
  // Operands beside the viewed one keep the versions the original read: that is what decided its geometry.
  auto operands = mapOperands(step.operands(), [&](const ir::Operand &operand) {
    return operand.mark == ir::Mark::Alias ? onto : operand.value;
  });
  std::vector<ir::Graph::ResultSpec> results;
  for (const ir::Value *result : step.results())
    results.push_back({result->name, result->type});
  ir::Op *copy = graph_.insertBefore(before, step.kind, step.name, std::move(operands), step.attrs, results);
  copy->state = step.state;
  copy->loc = step.loc;
  for (size_t i = 0; i < results.size(); ++i)
    made_[step.result(i)] = copy->result(i);
  ++stepsMade_;
}

// ---- Families

ir::Value *Families::fresh(ir::Value *value, ir::Op *before) {
  auto version = newest_.find(aliases_.base(value));
  return version == newest_.end() ? value : version->second.get(value, before);
}

void Families::setVersion(const ir::Value *base, ir::Value *version) {
  if (auto old = newest_.find(base); old != newest_.end()) {
    remadeBefore_ += old->second.stepsMade();
    newest_.erase(old);
  }
  newest_.emplace(base, Replay(graph_, aliases_, base, version));
}

void Families::note(const ir::Op &view) {
  for (ir::Value *result : view.results())
    if (auto version = newest_.find(aliases_.base(result)); version != newest_.end())
      version->second.note(result);
}

int64_t Families::viewsRemade() const {
  int64_t count = remadeBefore_;
  for (const auto &[base, replay] : newest_)
    count += replay.stepsMade();
  return count;
}

} // namespace graphopt::passes
