// One walk in text order builds the view forest; joins merge families whose views cannot be told apart.
#include "ir/alias.h"

#include <algorithm>
#include <graphopt/error.h>

namespace graphopt::ir {

namespace {
std::vector<const Value *> aliasedOperands(const Op &op) {
  std::vector<const Value *> sources;
  op.forEachValue([&](const Operand &operand) {
    if (operand.mark == Mark::Alias)
      sources.push_back(operand.value);
  });
  return sources;
}

/// The values that an `alias` guard says share memory; none when it says they do not.
std::vector<const Value *> sharingValues(const Guard &guard) {
  std::vector<const Value *> values;
  const Attr *expected = std::get_if<Attr>(&guard.expected);
  bool distinct = expected && expected->isWord("distinct");
  if (guard.kind != "alias" || distinct)
    return values;
  for (const Operand &operand : guard.operands)
    if (operand.kind == Operand::Kind::Value)
      values.push_back(operand.value);
  return values;
}
} // namespace

AliasInfo::AliasInfo(const Graph &graph) {
  std::vector<const Value *> order;
  for (const Value *value : graph.declarations()) {
    addBase(value);
    order.push_back(value);
  }
  for (const Guard &guard : graph.guards) {
    std::vector<const Value *> values = sharingValues(guard);
    for (size_t i = 1; i < values.size(); ++i)
      join(values[0], values[i]);
  }
  walk(graph.body(), [&](const Op &op) {
    addViews(op);
    order.insert(order.end(), op.results().begin(), op.results().end());
  });
  for (const Value *value : order)
    families_[leader(value)].push_back(value);
}

void AliasInfo::addBase(const Value *value) { entries_[value] = {value, nullptr, true}; }

void AliasInfo::addViews(const Op &op) {
  // Returns and yields may carry & too, but they have no results and join nothing.
  std::vector<const Value *> sources = aliasedOperands(op);
  for (const Value *result : op.results()) {
    if (sources.empty() || !result->type.isTensor()) {
      addBase(result);
      continue;
    }
    const Entry &parent = entries_.at(sources[0]);
    entries_[result] = {parent.base, sources[0], parent.replayable && sources.size() == 1};
  }
  for (size_t i = 1; i < sources.size() && !op.results().empty(); ++i)
    join(sources[0], sources[i]);
}

const Value *AliasInfo::leader(const Value *value) const {
  const Value *at = base(value);
  for (auto it = joined_.find(at); it != joined_.end(); it = joined_.find(at))
    at = it->second;
  return at;
}

void AliasInfo::join(const Value *a, const Value *b) {
  const Value *first = leader(a);
  const Value *second = leader(b);
  if (first != second)
    joined_[second] = first;
}

const Value *AliasInfo::base(const Value *value) const {
  auto it = entries_.find(value);
  GO_ASSERT(it != entries_.end(), "alias information is older than value " + value->name);
  return it->second.base;
}

std::vector<ViewStep> AliasInfo::chain(const Value *value) const {
  std::vector<ViewStep> steps;
  for (const Value *at = value; entries_.at(at).parent; at = entries_.at(at).parent)
    steps.push_back({at->def, at->resultIndex});
  std::reverse(steps.begin(), steps.end());
  return steps;
}

bool AliasInfo::hasReplayableChain(const Value *value) const { return entries_.at(value).replayable; }

bool AliasInfo::mayAlias(const Value *a, const Value *b) const { return leader(a) == leader(b); }

const std::vector<const Value *> &AliasInfo::family(const Value *value) const {
  return families_.at(leader(value));
}

} // namespace graphopt::ir
