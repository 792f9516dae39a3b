// The operators of the rule language: prims where a tensor is among the operands, else computed at once.
#include "passes/rule_eval.h"

#include <fmt/format.h>
#include <graphopt/error.h>

namespace graphopt::passes {
namespace {
using Kind = RuleValue::Kind;

RuleValue number(ir::Dim value) { return RuleValue::of(ir::Attr::integer(std::move(value))); }
RuleValue boolean(bool value) { return RuleValue::of(ir::Attr::boolean(value)); }

std::string_view primOf(std::string_view op) {
  static constexpr std::pair<std::string_view, std::string_view> kPrims[] = {
      {"+", "prim.add"},         {"-", "prim.sub"},          {"*", "prim.mul"},
      {"/", "prim.div"},         {"==", "prim.eq"},          {"!=", "prim.ne"},
      {"<", "prim.lt"},          {"<=", "prim.le"},          {">", "prim.gt"},
      {">=", "prim.ge"},         {"&", "prim.bitwise_and"},  {"|", "prim.bitwise_or"},
      {"^", "prim.bitwise_xor"}, {"&&", "prim.bitwise_and"}, {"||", "prim.bitwise_or"}};
  for (const auto &[text, prim] : kPrims)
    if (text == op)
      return prim;
  GO_ASSERT(false, "an operator of the rule language without a prim");
}

/// 1 beside a tensor that 1 does not promote: the product or quotient is the tensor.
bool isOne(const RuleValue &value, const RuleValue &tensor) {
  if (value.kind != Kind::Host || !tensor.isTensor() || tensor.tensor->type.dtype == ir::DType::Bool)
    return false;
  if (value.host.isInt())
    return value.host.asDim() == ir::Dim(1);
  const ir::DType dtype = tensor.tensor->type.dtype;
  const bool isInexact = ir::isFloating(dtype) || ir::isComplex(dtype);
  return isInexact && value.host.kind() == ir::Attr::Kind::Float && value.host.asReal() == 1;
}

RuleValue onDims(std::string_view op, const ir::Dim &a, const ir::Dim &b) {
  if (op == "+")
    return number(a + b);
  if (op == "-")
    return number(a - b);
  if (op == "*")
    return number(a * b);
  const bool isKnown = a.isConstant() && b.isConstant();
  if (op == "==" && (isKnown || a == b))
    return boolean(a == b);
  if (op == "!=" && (isKnown || a == b))
    return boolean(a != b);
  if (!isKnown)
    throw CannotDecompose{"the rule compares sizes that are not constant"};
  if (op == "/")
    return RuleValue::of(ir::Attr::real(static_cast<double>(a.value()) / static_cast<double>(b.value())));
  const bool less = a.value() < b.value(), equal = a.value() == b.value();
  return boolean(op == "<" ? less : op == "<=" ? less || equal : op == ">" ? !less && !equal : !less);
}

RuleValue onReals(std::string_view op, double a, double b) {
  if (op == "+" || op == "-" || op == "*" || op == "/")
    return RuleValue::of(ir::Attr::real(op == "+" ? a + b : op == "-" ? a - b : op == "*" ? a * b : a / b));
  return boolean(op == "=="   ? a == b
                 : op == "!=" ? a != b
                 : op == "<"  ? a < b
                 : op == "<=" ? a <= b
                 : op == ">"  ? a > b
                              : a >= b);
}

/// Words, strings and lists are equal or not; a tensor is never none.
RuleValue onOthers(std::string_view op, const RuleValue &a, const RuleValue &b) {
  if (op == "+" && a.kind == Kind::List && b.kind == Kind::List) {
    std::vector<RuleValue> joined = a.items;
    joined.insert(joined.end(), b.items.begin(), b.items.end());
    return RuleValue::list(std::move(joined));
  }
  if (op == "&&" || op == "||")
    return boolean(op == "&&" ? boolOf(a) && boolOf(b) : boolOf(a) || boolOf(b));
  GO_ASSERT(op == "==" || op == "!=", "a rule computes with what is no number");
  const bool comparable = a.kind == b.kind && (a.kind == Kind::Host || a.kind == Kind::List);
  const bool equal = comparable && attrOf(a) == attrOf(b);
  return boolean(equal == (op == "=="));
}
} // namespace

RuleValue applyRuleOperator(std::string_view op, const RuleValue &a, const RuleValue &b,
                            CoreBuilder &builder) {
  const bool anyTensor = a.isTensor() || b.isTensor();
  const bool plainOthers = a.isNone() || b.isNone() || a.kind == Kind::List || b.kind == Kind::List;
  if (anyTensor && !plainOthers) {
    if (op == "*" && isOne(a, b))
      return b;
    if ((op == "*" || op == "/") && isOne(b, a))
      return a;
    return RuleValue::of(builder.point(primOf(op), {operandOf(a), operandOf(b)}));
  }
  if (isDim(a) && isDim(b))
    return onDims(op, a.host.asDim(), b.host.asDim());
  if (isNumber(a) && isNumber(b))
    return onReals(op, realOf(a), realOf(b));
  return onOthers(op, a, b);
}

} // namespace graphopt::passes
