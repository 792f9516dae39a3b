// One operator, one rule. Operands are cast to the dtype that the operator computes in, and results to their
// own. f16 and bf16 are computed in f32 as soon as a rule would round more than once, as ATen's kernels do:
// first the rule is tried in the low precision itself, since a single prim needs no casts.
#include "passes/core_rules.h"
#include "passes/promote.h"
#include "passes/rule_eval.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace graphopt::passes {
namespace {
using ir::DType;
using ir::Operand;
using ir::Type;
using ir::Value;

bool isLowPrecision(DType dtype) { return dtype == DType::Half || dtype == DType::BFloat16; }

/// The number that a wrapped number holds, when it is known; it is then written as a literal.
const ir::Attr *knownNumber(const Value &value) {
  const bool isFixed = value.kind == Value::Kind::Const || value.kind == Value::Kind::HostVal;
  return isFixed && value.type.wrapped && !value.content.isNone() ? &value.content : nullptr;
}

/// Lazy conjugates end where a view became prims: what was a view of one is then a view of plain numbers.
Type plainOf(Type type) {
  type.conj = type.neg = false;
  return type;
}

bool isView(const ir::Op &op) {
  bool found = false;
  op.forEachValue([&](const Operand &operand) { found |= operand.mark == ir::Mark::Alias; });
  return found;
}

class Application {
public:
  Application(const CoreRule &rule, ir::Op &op, ir::Graph &graph)
      : rule_(rule), op_(op), builder_(graph, op) {}

  std::vector<Value *> run() {
    try {
      return apply();
    } catch (...) {
      builder_.rollBack();
      throw;
    }
  }

private:
  std::vector<Value *> apply() {
    requirePlainTypes();
    if (hasNoElements())
      return finish(emptyResults());
    const DType dtype = computeDType();
    std::vector<RuleValue> results = evaluate(dtype);
    if (builder_.roundings() > 1 && isLowPrecision(dtype)) {
      builder_.rollBack();
      results = evaluate(DType::Float);
    }
    // Conjugates are what a formula for real numbers leaves out.
    if (builder_.roundings() > 1 && ir::isComplex(dtype))
      throw CannotDecompose{"complex numbers"};
    return finish(std::move(results));
  }

  void requirePlainTypes() const {
    for (const Value *result : op_.results()) {
      const Type &type = isView(op_) ? plainOf(result->type) : result->type;
      if ((!type.isTensor() || type.wrapped || type.conj || type.neg) && type.kind != Type::Kind::None)
        throw CannotDecompose{fmt::format("a result of type {}", toString(type))};
    }
    op_.forEachValue([](const Operand &operand) {
      if (!operand.value->type.isTensor() || operand.value->type.conj || operand.value->type.neg)
        throw CannotDecompose{fmt::format("an operand of type {}", toString(operand.value->type))};
    });
  }

  /// Results without elements need no computing, and some reductions refuse them.
  bool hasNoElements() const {
    return std::all_of(op_.results().begin(), op_.results().end(), [](const Value *result) {
      return result->type.isTensor() && result->type.numel() == ir::Dim(0);
    });
  }

  std::vector<RuleValue> emptyResults() {
    std::vector<RuleValue> results;
    for (const Value *result : op_.results()) {
      const RuleValue dtype = RuleValue::of(ir::Attr::word(std::string(ir::dtypeName(result->type.dtype))));
      const RuleValue zero =
          callRuleFunction("as_dtype", {RuleValue::of(ir::Attr::integer(0)), dtype}, builder_);
      const RuleValue sizes = callRuleFunction("sizes", {RuleValue::of(&result->type)}, builder_);
      results.push_back(callRuleFunction("full", {sizes, zero, dtype}, builder_));
    }
    return results;
  }

  // ---- operands

  const Type &outType() const {
    for (const Value *result : op_.results())
      if (result->type.isTensor())
        return result->type;
    throw CannotDecompose{"no tensor among the results"};
  }

  DType computeDType() const {
    if (outType().dtype != DType::Bool)
      return outType().dtype;
    std::vector<const Type *> types;
    for (size_t i = 0; i < rule_.operands.size() && i < op_.operands().size(); ++i)
      if (!rule_.operands[i].asIs && op_.operands()[i].isValue())
        types.push_back(&op_.operands()[i].value->type);
    return commonDType(types).value_or(DType::Bool);
  }

  std::vector<RuleValue> evaluate(DType dtype) {
    RuleScope names;
    names["dtype"] = RuleValue::of(ir::Attr::word(std::string(ir::dtypeName(dtype))));
    names["out"] = RuleValue::of(&outType());
    std::vector<RuleValue> outs;
    for (const Value *result : op_.results())
      outs.push_back(RuleValue::of(&result->type));
    names["outs"] = RuleValue::list(std::move(outs));
    bindOperands(names, dtype);
    bindAttrs(names);
    return evaluateRule(rule_.body, std::move(names), builder_);
  }

  void bindOperands(RuleScope &names, DType dtype) {
    if (op_.operands().size() > rule_.operands.size())
      throw CannotDecompose{"more operands than the rule names"};
    bool anyTensor = false;
    for (size_t i = rule_.operands.size(); i-- > 0;) { // tensors with dims come first among equals
      const Operand &given = i < op_.operands().size() ? op_.operands()[i] : Operand::none();
      const bool mayBeNumber = anyTensor || i > 0;
      names[rule_.operands[i].name] = bound(given, rule_.operands[i], dtype, mayBeNumber);
      anyTensor |= names[rule_.operands[i].name].isTensor();
    }
  }

  RuleValue bound(const Operand &given, const CoreOperand &wanted, DType dtype, bool mayBeNumber) {
    switch (given.kind) {
    case Operand::Kind::None:
      return {};
    case Operand::Kind::List: {
      std::vector<RuleValue> items;
      for (const Operand &item : given.items)
        items.push_back(bound(item, wanted, dtype, false));
      return RuleValue::list(std::move(items));
    }
    case Operand::Kind::Literal:
      return RuleValue::of(given.literal);
    case Operand::Kind::Value:
      break;
    }
    if (const ir::Attr *number = mayBeNumber && !wanted.asIs ? knownNumber(*given.value) : nullptr)
      return RuleValue::of(*number);
    if (wanted.asIs)
      return RuleValue::of(given.value);
    if (ir::isComplex(given.value->type.dtype) && !ir::isComplex(dtype))
      throw CannotDecompose{"complex numbers"};
    return RuleValue::of(builder_.cast(onDevice(given.value), dtype));
  }

  /// A 0-dim tensor of the CPU may stand beside tensors of another device.
  Value *onDevice(Value *x) {
    const std::optional<ir::Device> &wanted = outType().device;
    if (x->type.device == wanted)
      return x;
    if (x->type.rank() > 0)
      throw CannotDecompose{"operands on different devices"};
    Type type = Type::tensor(x->type.dtype, {});
    type.device = wanted;
    const ir::Device device = wanted.value_or(builder_.graph().device);
    return builder_.call("aten._to_copy", {Operand::of(x)}, {{"device", ir::Attr::word(toString(device))}},
                         type);
  }

  void bindAttrs(RuleScope &names) const {
    for (const ir::NamedAttr &given : op_.attrs) {
      auto isIt = [&](const CoreAttr &attr) { return attr.name == given.name; };
      if (std::none_of(rule_.attrs.begin(), rule_.attrs.end(), isIt))
        throw CannotDecompose{fmt::format("attribute '{}'", given.name)};
    }
    for (const CoreAttr &attr : rule_.attrs) {
      const ir::Attr *given = op_.attr(attr.name);
      if (!given && !attr.dflt)
        throw CannotDecompose{fmt::format("no attribute '{}'", attr.name)};
      names[attr.name] = RuleValue::of(given ? *given : *attr.dflt);
    }
  }

  // ---- results

  std::vector<Value *> finish(std::vector<RuleValue> results) {
    if (results.size() != op_.results().size()) // undefined results may go unnamed
      std::erase_if(results, [](const RuleValue &result) { return result.isNone(); });
    if (results.size() != op_.results().size())
      throw CannotDecompose{fmt::format("{} results for {}", results.size(), op_.results().size())};
    std::vector<Value *> values;
    for (size_t i = 0; i < results.size(); ++i)
      values.push_back(finished(results[i], plainOf(op_.results()[i]->type), values));
    builder_.dropUnused(values);
    return values;
  }

  /// A value of this type that is nobody else's tensor.
  Value *finished(const RuleValue &result, const Type &type, const std::vector<Value *> &others) {
    if (!type.isTensor() && result.isNone())
      return nullptr;
    Value *value = builder_.broadcast(builder_.cast(tensorOf(result), type.dtype), type.sizes);
    if (isView(op_) && value->type == type)
      return value;
    const bool isShared = std::find(others.begin(), others.end(), value) != others.end();
    if (isShared || !builder_.made(value))
      value = builder_.copy(value);
    if (value->type.device != type.device)
      throw CannotDecompose{"a result on another device than the operands"};
    value->type = type;
    return value;
  }

  const CoreRule &rule_;
  ir::Op &op_;
  CoreBuilder builder_;
};
} // namespace

std::variant<std::vector<Value *>, std::string> applyCoreRule(const CoreRule &rule, ir::Op &op,
                                                              ir::Graph &graph) {
  try {
    return Application(rule, op, graph).run();
  } catch (const CannotDecompose &cannot) {
    return cannot.reason;
  }
}

} // namespace graphopt::passes
