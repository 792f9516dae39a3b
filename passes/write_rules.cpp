// Refusals, each with its reason:
//
//   metadata     t_, resize_, set_ ... give a tensor another geometry; a value has one type for life
//   result view  an operator that writes one operand and returns a view of another would hide the view in a
//   region flags        lazily conjugated or negated memory, wrapped numbers: aten.clone drops the flag
//   layout       elements that share memory, or may: a copy of the base has no such sharing
//   no chain     a view of several tensors at once that is written, or used after a write
//   overlap      two declared values share memory by an alias guard: a write to one shows in the other
//   as_strided   on a declared base: its offset is absolute, and that of the copy is 0
#include "passes/write_rules.h"

#include "passes/density.h"

#include <algorithm>
#include <fmt/format.h>
#include <graphopt/error.h>

namespace graphopt::passes {

std::vector<ir::Value *> writtenValues(const ir::Op &op) {
  std::vector<ir::Value *> written;
  op.forEachValue([&](const ir::Operand &operand) {
    const bool isNew = std::find(written.begin(), written.end(), operand.value) == written.end();
    if (operand.mark == ir::Mark::Write && isNew)
      written.push_back(operand.value);
  });
  return written;
}

WriteRules::WriteRules(const ir::Graph &graph, const ir::AliasInfo &aliases, const ir::OpCatalog *catalog)
    : graph_(graph), aliases_(aliases), catalog_(catalog) {
  size_t position = 0;
  for (const auto &op : graph.body()) {
    position_[op.get()] = ++position; // 0 is before the first op: declarations
    op->forEachValue([&](const ir::Operand &operand) { lastUse_[operand.value] = position; });
  }
}

void WriteRules::refuse(const ir::Op &op, const std::string &why) const {
  const std::string place =
      op.loc.line > 0 ? fmt::format("{}:{}:{}: ", graph_.file, op.loc.line, op.loc.column) : "";
  userError(fmt::format("{}'{}' op {}", place, op.name, why));
}

void WriteRules::check(const ir::Op &op) const {
  checkOperator(op);
  for (const ir::Value *value : writtenValues(op)) {
    checkBase(op, aliases_.base(value));
    checkFamily(op, value);
  }
}

void WriteRules::checkOperator(const ir::Op &op) const {
  const ir::OpInfo *info = catalog_ ? catalog_->find(op.name) : nullptr;
  if (info && info->metadataOnly)
    refuse(op, "changes the geometry of a tensor in place, which no value can show: use the operator that "
               "returns a view");
  bool aliases = false;
  op.forEachValue([&](const ir::Operand &operand) { aliases |= operand.mark == ir::Mark::Alias; });
  if (aliases && !op.results().empty())
    refuse(op, "writes one operand and returns a view of another: take the view by an operator of its own");
}

void WriteRules::checkBase(const ir::Op &op, const ir::Value *base) const {
  const ir::Type &type = base->type;
  if (!type.isTensor())
    refuse(op, fmt::format("writes %{}, which is no tensor but {}", base->name, ir::toString(type)));
  if (type.conj || type.neg)
    refuse(op,
           fmt::format("writes %{}, which is lazily conjugated or negated: resolve it first", base->name));
  if (type.wrapped)
    refuse(op, fmt::format("writes %{}, a wrapped number: make it a tensor first", base->name));
  if (densityOf(type, graph_.syms) == Density::Unknown)
    refuse(op,
           fmt::format(
               "writes memory of %{}, whose elements share memory or cannot be shown not to ({}): clone it "
               "before the write",
               base->name, ir::toString(type)));
}

/// Every other value that may share memory with the written one.
void WriteRules::checkFamily(const ir::Op &op, const ir::Value *written) const {
  if (!aliases_.hasReplayableChain(written))
    refuse(op, fmt::format("writes %{}, a view of several tensors at once: clone it before the write",
                           written->name));
  for (const ir::Value *member : aliases_.family(written))
    checkMember(op, written, member);
}

void WriteRules::checkMember(const ir::Op &op, const ir::Value *written, const ir::Value *member) const {
  const ir::Value *base = aliases_.base(written);
  if (member->isDeclared() && member != base && base->isDeclared())
    for (const ir::Guard &guard : graph_.guards) {
      auto isNamed = [&](const ir::Value *value) {
        return std::any_of(guard.operands.begin(), guard.operands.end(),
                           [&](const ir::Operand &operand) { return operand.value == value; });
      };
      if (guard.kind == "alias" && isNamed(base) && isNamed(member))
        refuse(op, fmt::format(
                       "writes %{}, which shares memory with %{} by guard #{}: pass a clone of one of them",
                       base->name, member->name, guard.number));
    }
  if (!livesAcross(member, op))
    return;
  if (!aliases_.hasReplayableChain(member))
    refuse(op,
           fmt::format(
               "writes %{} while %{}, a view of several tensors at once, is still in use: clone it before "
               "the write",
               written->name, member->name));
  for (const ir::ViewStep &step : aliases_.chain(member))
    if (base->isDeclared() && step.op->name.starts_with("aten.as_strided"))
      refuse(op,
             fmt::format(
                 "writes memory of %{} that %{} sees through as_strided, whose offset counts from the start "
                 "of the storage: use slice, select or expand",
                 base->name, member->name));
}

/// Used by `op` or after it. A value that is defined later is made of the newest versions and needs no chain.
bool WriteRules::livesAcross(const ir::Value *value, const ir::Op &op) const {
  const size_t here = position_.at(&op);
  auto used = lastUse_.find(value);
  const bool isDefined = value->isDeclared() || position_.at(value->def) < here;
  return isDefined && used != lastUse_.end() && used->second >= here;
}

} // namespace graphopt::passes
