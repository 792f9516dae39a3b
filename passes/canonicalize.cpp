// Canonical form of a functional graph, so that later passes meet each thing in one shape. Three kinds of
// rules, each a table: identities (an operator that gave back its operand), updates (in place on a copy = the
// functional operator), rewrites (patterns of rules/rewrites.def; those that round anew are off under
// numerics=eager).
//
// Rounds over the graph until nothing changes. Each rule removes an operator or an update and makes at most
// one call, so this ends.
#include "passes/pass_list.h"

#include "ir/effects.h"
#include "passes/functional_overload.h"
#include "passes/regions.h"
#include "passes/rewrite.h"

#include <algorithm>
#include <fmt/format.h>
#include <graphopt/error.h>
#include <unordered_map>
#include <unordered_set>

namespace graphopt::passes {
namespace {

struct Identity {
  std::string_view name, when;
};
constexpr Identity kIdentities[] = {
#define IDENTITY(name, when, equation) {name, when},
#include "passes/rules/identities.def"
#undef IDENTITY
};

const Identity *findIdentity(std::string_view name) {
  auto it = std::find_if(std::begin(kIdentities), std::end(kIdentities),
                         [&](const Identity &row) { return row.name == name; });
  return it == std::end(kIdentities) ? nullptr : it;
}

bool isGradOff(const ir::Graph &graph, uint32_t state) {
  const auto &ambient = graph.states[state].ambient;
  return std::any_of(ambient.begin(), ambient.end(),
                     [](const ir::NamedAttr &a) { return a.name == "grad" && a.value.isWord("off"); });
}

/// Whether some operator may record a history: gradients are on for it and some declared tensor requires one.
bool historyMatters(const ir::Graph &graph) {
  const auto &declared = graph.declarations();
  if (std::none_of(declared.begin(), declared.end(), [](const ir::Value *value) { return value->type.grad; }))
    return false;
  bool isOn = false;
  ir::walk(graph.body(),
           [&](const ir::Op &op) { isOn |= op.kind == ir::Op::Kind::Call && !isGradOff(graph, op.state); });
  return isOn;
}

class Canonicalizer {
public:
  Canonicalizer(ir::Graph &graph, PassContext &context, std::string only)
      : graph_(graph), context_(context), only_(std::move(only)), historyMatters_(historyMatters(graph)) {
    if (const ir::Op *last = graph.returnOp())
      last->forEachValue([&](const ir::Operand &operand) { returned_.insert(operand.value); });
  }

  bool run() {
    bool changed = false;
    for (bool again = true; again; changed |= again) {
      again = false;
      for (ir::Op *op : graph_.body().ops())
        again |= visit(op);
    }
    return changed;
  }

private:
  bool isOn(std::string_view rule) const { return only_.empty() || only_ == rule; }

  bool visit(ir::Op *op) {
    if (op->kind == ir::Op::Kind::Update)
      return isOn("update") && simplifyUpdate(op);
    if (op->kind != ir::Op::Kind::Call)
      return false;
    if (isOn("identity") && dropIdentity(op))
      return true;
    for (const Rewrite &rule : rewriteTable())
      if (isOn(rule.name) && rewrite(op, rule))
        return true;
    return false;
  }

  /// `value` for the result of `op`, which has no other effect. Refused when the caller would see another
  /// tensor object, or a history that the op cut.
  bool forward(ir::Op *op, ir::Value *value, std::string_view rule) {
    ir::Type from = value->type, to = op->result()->type;
    from.grad = to.grad = false; // said of declarations only
    if (from != to || returned_.contains(op->result()))
      return false;
    if (historyMatters_ && isGradOff(graph_, op->state))
      return false;
    if (op->result()->hasUses())
      graph_.replaceAllUses(op->result(), value);
    graph_.erase(op);
    count(rule);
    return true;
  }

  bool dropIdentity(ir::Op *op) {
    const Identity *row = findIdentity(op->name);
    if (!row || op->results().size() != 1 || op->operands().empty())
      return false;
    const ir::Operand &source = op->operands()[0];
    const bool aliases = source.isValue() && source.mark == ir::Mark::Alias;
    return aliases && ir::conditionHolds(row->when, *op) && forward(op, source.value, "identity");
  }

  bool simplifyUpdate(ir::Op *op) {
    const auto call = functionalCall(*op, graph_, historyMatters_, context_.catalog);
    if (!call)
      return false;
    replace(op, call->name, call->operands, call->attrs, call->state);
    count("update");
    return true;
  }

  bool rewrite(ir::Op *op, const Rewrite &rule) {
    if (op->name != rule.pattern.name || (rule.rounding == Rounding::Rounds && context_.eagerNumerics))
      return false;
    const auto found = match(rule, *op, graph_, context_.catalog);
    if (!found)
      return false;
    if (rule.replacement.kind == Pattern::Kind::Var)
      return forward(op, found->values.at(rule.replacement.name), rule.name);
    if (op->result()->type.strides)
      return false; // the new operator gives contiguous results
    replace(op, rule.replacement.name, operandsOf(rule.replacement, *found),
            attrsOf(rule.replacement, *found), op->state);
    count(rule.name);
    return true;
  }

  /// The new call takes the results' types, names, users and place.
  void replace(ir::Op *op, const std::string &name, const std::vector<ir::Operand> &operands,
               const std::vector<ir::NamedAttr> &attrs, uint32_t state) {
    std::vector<ir::Graph::ResultSpec> results;
    for (const ir::Value *result : op->results())
      results.push_back({result->name, result->type});
    ir::Op *call = graph_.insertBefore(op, ir::Op::Kind::Call, name, operands, attrs, results);
    call->state = state;
    call->loc = op->loc;
    for (size_t i = 0; i < results.size(); ++i) {
      graph_.exchangeNames(op->result(i), call->result(i));
      if (returned_.contains(op->result(i)))
        returned_.insert(call->result(i));
      if (op->result(i)->hasUses())
        graph_.replaceAllUses(op->result(i), call->result(i));
    }
    graph_.erase(op);
  }

  void count(std::string_view rule) { ++context_.statistics[fmt::format("{} applied", rule)]; }

  ir::Graph &graph_;
  PassContext &context_;
  const std::string only_; // the one rule to apply; empty: all
  const bool historyMatters_;
  std::unordered_set<const ir::Value *> returned_; // membership only
};

/// The option `only`: a rule's name.
std::string onlyRule(const PassContext &context) {
  const auto given = context.options.find("only");
  if (given == context.options.end())
    return "";
  const std::string &name = given->second;
  const auto &rules = rewriteTable();
  auto isIt = [&](const Rewrite &rule) { return rule.name == name; };
  if (name != "identity" && name != "update" && std::none_of(rules.begin(), rules.end(), isIt))
    userError(fmt::format(
        "canonicalize has no rule '{}': it has identity, update and those of rules/rewrites.def", name));
  return name;
}

} // namespace

Changed canonicalize(ir::Graph &graph, PassContext &context) {
  const bool changed = Canonicalizer(graph, context, onlyRule(context)).run();
  if (changed)
    tidyCaptures(graph); // a region may have captured an operator's operand and result
  return Changed(changed);
}

} // namespace graphopt::passes
