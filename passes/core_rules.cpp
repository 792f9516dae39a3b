// Reads the rows of rules/core/*.def, once.
#include "passes/core_rules.h"

#include "passes/rule_eval.h"

#include <graphopt/error.h>
#include <unordered_map>

namespace graphopt::passes {
namespace {

struct Row {
  std::string_view name, parameters, text;
};
constexpr Row kRows[] = {
#define CORE(name, parameters, text) {name, parameters, text},
#include "passes/rules/core/activations.def"
#include "passes/rules/core/creation.def"
#include "passes/rules/core/indexing.def"
#include "passes/rules/core/losses.def"
#include "passes/rules/core/normalization.def"
#include "passes/rules/core/pointwise.def"
#include "passes/rules/core/reductions.def"
#include "passes/rules/core/resampling.def"
#include "passes/rules/core/views.def"
#undef CORE
};
constexpr Row kFunctions[] = {
#define FUNCTION(name, parameters, text) {name, parameters, text},
#include "passes/rules/core/functions.def"
#undef FUNCTION
};

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> found;
  for (size_t at = text.find_first_not_of(' '); at != std::string_view::npos;) {
    const size_t end = std::min(text.find(' ', at), text.size());
    found.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(' ', end);
  }
  return found;
}

/// The value of a default: a literal, a sign before a number, or a list of these.
ir::Attr defaultOf(const RuleExpr &expr) {
  if (expr.kind == RuleExpr::Kind::List) {
    std::vector<ir::Attr> items;
    for (const RuleExpr &item : expr.args)
      items.push_back(defaultOf(item));
    return ir::Attr::list(std::move(items));
  }
  if (expr.kind != RuleExpr::Kind::Unary)
    return expr.literal;
  const ir::Attr &positive = expr.args[0].literal;
  return positive.isInt() ? ir::Attr::integer(-positive.asInt()) : ir::Attr::real(-positive.asReal());
}

CoreAttr attrOfWord(const std::string &word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos)
    return {word, std::nullopt};
  return {word.substr(0, equals),
          defaultOf(parseRule(std::string_view(word).substr(equals + 1)).at(0).exprs.at(0))};
}

CoreOperand operandOfWord(std::string word) {
  const bool asIs = word.ends_with('!');
  if (asIs)
    word.pop_back();
  return {std::move(word), asIs};
}

template <class T> using Index = std::unordered_map<std::string_view, T>;
} // namespace

CoreRule parseCoreRule(std::string_view name, std::string_view parameters, std::string_view text) {
  CoreRule rule;
  rule.name = name;
  const size_t bar = parameters.find('|');
  for (std::string &word : words(parameters.substr(0, bar)))
    rule.operands.push_back(operandOfWord(std::move(word)));
  if (bar != std::string_view::npos)
    for (const std::string &word : words(parameters.substr(bar + 1)))
      rule.attrs.push_back(attrOfWord(word));
  rule.body = parseRule(text);
  return rule;
}

const std::vector<CoreRule> &coreRules() {
  static const std::vector<CoreRule> rules = [] {
    std::vector<CoreRule> all;
    for (const Row &row : kRows)
      all.push_back(parseCoreRule(row.name, row.parameters, row.text));
    return all;
  }();
  return rules;
}

const CoreRule *findCoreRule(std::string_view irName) {
  static const Index<const CoreRule *> index = [] {
    Index<const CoreRule *> byName;
    for (const CoreRule &rule : coreRules())
      GO_ASSERT(byName.emplace(rule.name, &rule).second, "two rules for " + std::string(rule.name));
    return byName;
  }();
  auto it = index.find(irName);
  return it == index.end() ? nullptr : it->second;
}

const RuleFunction *findRuleFunction(std::string_view name) {
  static const Index<RuleFunction> index = [] {
    Index<RuleFunction> byName;
    for (const Row &row : kFunctions)
      byName[row.name] = {words(row.parameters), parseRule(row.text)};
    return byName;
  }();
  auto it = index.find(name);
  return it == index.end() ? nullptr : &it->second;
}

} // namespace graphopt::passes
