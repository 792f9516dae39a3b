// Calls against prims.def and, with a catalog, against the dispatcher's schemas.
#include "ir/verifier.h"

#include "ir/op_table.h"
#include "ir/shape_rules.h"

#include <algorithm>

namespace graphopt::ir {

namespace {
using Role = ArgInfo::Role;

class CallChecker {
public:
  CallChecker(Verifier &verifier, const Op &op) : v_(verifier), op_(op), name_(splitOpName(op.name)) {}

  void run() {
    checkName();
    if (name_.ns == "prim")
      checkPrim();
    else if (name_.ns != "plan")
      checkDispatcherCall();
  }

private:
  void checkName() {
    if (name_.ns.empty() || name_.base.empty())
      v_.error(op_, "has no namespace: operators are called aten.x, prim.x or ns::x");
    for (size_t i = 0; i < op_.attrs.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (op_.attrs[i].name == op_.attrs[j].name)
          v_.error(op_, "has attribute '{}' twice", op_.attrs[i].name);
  }

  // ---- prims

  void checkPrim() {
    const PrimRow *row = findPrim(op_.name);
    if (!row) {
      v_.error(op_, "is no prim: see prims.def");
      return;
    }
    auto inferred = inferTypes(*row, op_, v_.graph.syms);
    if (const std::string *reason = std::get_if<std::string>(&inferred))
      v_.error(op_, "{}", *reason);
    else
      compareTypes(*row, std::get<std::vector<Type>>(inferred));
  }

  void compareTypes(const PrimRow &row, const std::vector<Type> &types) {
    if (op_.results().size() != types.size()) {
      v_.error(op_, "has {} results, expected {}", op_.results().size(), types.size());
      return;
    }
    for (size_t i = 0; i < types.size(); ++i) {
      const Value &result = *op_.result(i);
      // A created tensor is on the device that its type names.
      bool sameDevice = row.fusion == FusionClass::Create || result.type.device == types[i].device;
      if (!result.type.isTensor() || !sameDevice || result.type.dtype != types[i].dtype ||
          !sameSizes(result.type.sizes, types[i].sizes))
        v_.error(op_, "has result '{}' of type {}, expected {}", nameOf(result), toString(result.type),
                 toString(types[i]));
    }
  }

  bool sameSizes(const std::vector<Dim> &a, const std::vector<Dim> &b) const {
    auto same = [&](const Dim &x, const Dim &y) { return provablyEqual(x, y, v_.graph.syms); };
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
  }

  // ---- dispatcher operators

  void checkDispatcherCall() {
    for (size_t i = 0; i < op_.operands().size(); ++i)
      if (hasLiteral(op_.operands()[i]))
        v_.error(op_, op_.operands()[i], "operand #{} is a literal: scalars of operators are attributes", i);
    const OpInfo *info = v_.catalog ? v_.catalog->find(op_.name) : nullptr;
    if (!info)
      return;
    checkOperands(*info);
    checkAttrs(*info);
    checkResults(*info);
  }

  static bool hasLiteral(const Operand &operand) {
    return operand.kind == Operand::Kind::Literal ||
           std::any_of(operand.items.begin(), operand.items.end(), hasLiteral);
  }

  void checkOperands(const OpInfo &info) {
    std::vector<const ArgInfo *> expected;
    for (const ArgInfo &arg : info.args)
      if (arg.role != Role::Attr)
        expected.push_back(&arg);
    if (op_.operands().size() != expected.size()) {
      v_.error(op_, "has {} operands, expected {} (none where one is missing)", op_.operands().size(),
               expected.size());
      return;
    }
    for (size_t i = 0; i < expected.size(); ++i)
      checkOperand(i, *expected[i]);
  }

  void checkOperand(size_t i, const ArgInfo &arg) {
    const Operand &operand = op_.operands()[i];
    bool isList = operand.kind == Operand::Kind::List;
    bool isNone = operand.kind == Operand::Kind::None;
    // LibTorch's own formulas leave out tensors that the schema asks for: an attention's bias.
    const bool mayBeMissing = arg.optional || (v_.graph.stage != Stage::Captured && arg.role == Role::Tensor);
    if (isNone && !mayBeMissing)
      v_.error(op_, operand, "operand #{} '{}' is none, expected {}", i, arg.name, arg.type);
    else if (!isNone && isList != (arg.role == Role::TensorList))
      v_.error(op_, operand, "operand #{} '{}' is a {}, expected {}", i, arg.name, isList ? "list" : "value",
               arg.type);
  }

  void checkAttrs(const OpInfo &info) {
    auto isAttr = [](const ArgInfo &arg) { return arg.role == Role::Attr; };
    for (const NamedAttr &attr : op_.attrs) {
      auto isIt = [&](const ArgInfo &arg) { return isAttr(arg) && arg.name == attr.name; };
      if (std::none_of(info.args.begin(), info.args.end(), isIt))
        v_.error(op_, "has no attribute '{}'", attr.name);
    }
    for (const ArgInfo &arg : info.args)
      if (isAttr(arg) && !arg.dflt && !op_.attr(arg.name))
        v_.error(op_, "misses attribute '{}' of type {}", arg.name, arg.type);
  }

  /// A list result is any number of values. A written argument that the operator also returns is no result.
  void checkResults(const OpInfo &info) {
    size_t count = 0;
    bool hasList = false;
    for (const ReturnInfo &result : info.returns) {
      if (isWrittenArgument(info, result))
        continue;
      hasList |= result.isTensorList;
      count += result.isTensorList ? 0 : 1;
    }
    size_t given = op_.results().size();
    if (given < count || (given > count && !hasList))
      v_.error(op_, "has {} results, expected {}{}", given, hasList ? "at least " : "", count);
  }

  static bool isWrittenArgument(const OpInfo &info, const ReturnInfo &result) {
    auto isIt = [&](const ArgInfo &arg) { return arg.written && arg.aliasSet == result.aliasSet; };
    return !result.aliasSet.empty() && std::any_of(info.args.begin(), info.args.end(), isIt);
  }

  Verifier &v_;
  const Op &op_;
  OpName name_;
};
} // namespace

void Verifier::checkOperators() {
  walk(graph.body(), [&](const Op &op) {
    if (op.kind == Op::Kind::Call)
      CallChecker(*this, op).run();
  });
}

} // namespace graphopt::ir
