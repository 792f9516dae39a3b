// Applies a rule: its expressions become prims (through CoreBuilder) where a tensor is among the operands,
// and are computed at once where there is none.
#pragma once
#include "passes/core_builder.h"
#include "passes/rule_text.h"

#include <map>

namespace graphopt::passes {

/// What a name or an expression of a rule stands for.
struct RuleValue {
  enum class Kind { Host, Tensor, List, Type };
  Kind kind = Kind::Host;
  ir::Attr host; // a number, bool, string, word (of a dtype), or none
  ir::Value *tensor = nullptr;
  std::vector<RuleValue> items;
  const ir::Type *type = nullptr; // of a result: "out"

  static RuleValue of(ir::Attr host); ///< a list becomes a List of its items
  static RuleValue of(ir::Value *tensor);
  static RuleValue list(std::vector<RuleValue> items);
  static RuleValue of(const ir::Type *type);
  bool isTensor() const { return kind == Kind::Tensor; }
  bool isNone() const { return kind == Kind::Host && host.isNone(); }
};
using RuleScope = std::map<std::string, RuleValue, std::less<>>;

/// A function of the rule language that is itself a rule: rules/core/functions.def.
struct RuleFunction {
  std::vector<std::string> parameters;
  std::vector<RuleStmt> body;
};
const RuleFunction *findRuleFunction(std::string_view name);

/// The results of a rule, lists as their items. Throws CannotDecompose where an operand does not fit.
std::vector<RuleValue> evaluateRule(const std::vector<RuleStmt> &rule, RuleScope names, CoreBuilder &builder);

/// A function of the language by name, prims included; the list heads rule_functions.cpp.
RuleValue callRuleFunction(std::string_view name, const std::vector<RuleValue> &args, CoreBuilder &builder);
/// The same for an operator between two values, at least one of which may be a tensor.
RuleValue applyRuleOperator(std::string_view op, const RuleValue &a, const RuleValue &b,
                            CoreBuilder &builder);

// What functions ask of their arguments; each throws CannotDecompose when it is something else.
ir::Value *tensorOf(const RuleValue &value);
const ir::Type &typeOf(const RuleValue &value); ///< of a tensor or a result
ir::Dim dimOf(const RuleValue &value);
int64_t intOf(const RuleValue &value);
bool boolOf(const RuleValue &value);
ir::DType dtypeOf(const RuleValue &value);
double realOf(const RuleValue &value); ///< of any number
const std::vector<RuleValue> &itemsOf(const RuleValue &value);
std::vector<ir::Dim> dimsOf(const RuleValue &value);
ir::Attr attrOf(const RuleValue &value);
ir::Operand operandOf(const RuleValue &value);
bool isDim(const RuleValue &value);    ///< an integer, symbolic or not
bool isNumber(const RuleValue &value); ///< an integer or a fraction

} // namespace graphopt::passes
