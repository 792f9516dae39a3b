// Operands fill the schema's tensor arguments from left to right; attributes go by name; the rest has
// defaults.
#include "runtime/call.h"

#include "graphopt/error.h"
#include "ir/op_table.h"

#include <ATen/Functions.h>
#include <fmt/format.h>

namespace graphopt::runtime {
namespace {
using ir::ArgInfo;
using ir::Attr;
using ir::Operand;

/// The dtype that literal operands of a prim have: that of the other data operands.
std::optional<ir::DType> literalDType(const ir::Op &op, const ir::PrimRow &row) {
  if (row.shape == ir::ShapeRule::Where && !op.results().empty())
    return op.result()->type.dtype;
  for (const Operand &operand : op.operands())
    if (operand.kind == Operand::Kind::Value)
      return operand.value->type.dtype;
  return std::nullopt;
}

CallArgument attributeArgument(const ir::Op &op, const ArgInfo &info) {
  CallArgument argument;
  if (const Attr *given = op.attr(info.name))
    argument.literal = *given;
  else if (info.dflt)
    argument.literal = *info.dflt;
  else if (!info.optional)
    userError(fmt::format("'{}' op needs the attribute '{}' ({})", op.name, info.name, info.type));
  return argument;
}

CallArgument operandArgument(const ir::Op &op, const ArgInfo &info, size_t position) {
  CallArgument argument;
  argument.kind = CallArgument::Kind::Operand;
  if (position < op.operands().size())
    argument.operand = op.operands()[position];
  else if (!info.optional && !info.dflt)
    userError(fmt::format("'{}' op needs the operand '{}' ({})", op.name, info.name, info.type));
  bool isList = argument.operand.kind == Operand::Kind::List;
  if (isList && info.role == ArgInfo::Role::Tensor)
    userError(fmt::format("'{}' op operand '{}' is a list, expected {}", op.name, info.name, info.type));
  if (!isList && argument.operand.kind != Operand::Kind::None && info.role == ArgInfo::Role::TensorList)
    userError(fmt::format("'{}' op operand '{}' is no list, expected {}", op.name, info.name, info.type));
  return argument;
}

void checkNothingLeft(const ir::Op &op, const Operator &entry, size_t operandsTaken) {
  if (op.operands().size() > operandsTaken)
    userError(fmt::format("'{}' op has {} operands, its schema takes {}: {}", op.name, op.operands().size(),
                          operandsTaken, toString(entry.schema())));
  for (const ir::NamedAttr &attr : op.attrs) {
    bool known = false;
    for (const ArgInfo &info : entry.info.args)
      known |= info.role == ArgInfo::Role::Attr && info.name == attr.name;
    if (!known)
      userError(
          fmt::format("'{}' op has no attribute '{}': {}", op.name, attr.name, toString(entry.schema())));
  }
}

bool isWrittenArgument(const ir::OpInfo &info, const ir::ReturnInfo &result) {
  if (result.aliasSet.empty())
    return false;
  for (const ArgInfo &arg : info.args)
    if (arg.written && arg.aliasSet == result.aliasSet)
      return true;
  return false;
}

struct FlatResult {
  c10::IValue value;
  bool written = false; // an argument, written and returned
};

std::vector<FlatResult> flatten(const Operator &op, torch::jit::Stack &stack) {
  std::vector<FlatResult> flat;
  size_t count = op.info.returns.size();
  GO_ASSERT(stack.size() >= count, "an operator left too few results");
  for (size_t i = 0; i < count; ++i) {
    c10::IValue &value = stack[stack.size() - count + i];
    const ir::ReturnInfo &info = op.info.returns[i];
    bool written = isWrittenArgument(op.info, info);
    if (!info.isTensorList) {
      flat.push_back({std::move(value), written});
      continue;
    }
    for (const c10::IValue &item : value.toListRef())
      flat.push_back({item, written});
  }
  stack.clear();
  return flat;
}

bool isUndefined(const c10::IValue &value) {
  return value.isNone() || (value.isTensor() && !value.toTensor().defined());
}

} // namespace

ir::DType promotedDType(ir::DType dtype) {
  if (ir::isFloating(dtype))
    return at::kDouble;
  return ir::isComplex(dtype) ? at::kComplexDouble : dtype;
}

at::Tensor asTensor(const c10::IValue &value) {
  if (value.isTensor())
    return value.toTensor();
  if (value.isNone())
    return {};
  c10::Scalar scalar = value.toScalar();
  return at::scalar_tensor(scalar, at::TensorOptions().dtype(scalar.type()));
}

at::Tensor numberTensor(const c10::Scalar &scalar, std::optional<ir::DType> dtype) {
  if (dtype)
    return at::scalar_tensor(scalar, at::TensorOptions().dtype(*dtype));
  at::ScalarType own = scalar.isBoolean()         ? at::kBool
                       : scalar.isComplex()       ? at::kComplexDouble
                       : scalar.isFloatingPoint() ? at::kDouble
                                                  : at::kLong;
  at::Tensor tensor = at::scalar_tensor(scalar, at::TensorOptions().dtype(own));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

Call matchCall(const ir::Op &op) {
  GO_ASSERT(op.kind == ir::Op::Kind::Call, "only calls have a schema");
  const ir::PrimRow *prim = ir::findPrim(op.name);
  Call call;
  call.op = &requireOperator(prim ? prim->reference : std::string_view(op.name));
  call.copyResult = prim && prim->fusion == ir::FusionClass::View;
  std::optional<ir::DType> numbers = prim ? literalDType(op, *prim) : std::nullopt;
  size_t position = 0;
  for (const ArgInfo &info : call.op->info.args) {
    if (info.role == ArgInfo::Role::Attr) {
      call.arguments.push_back(attributeArgument(op, info));
      continue;
    }
    call.arguments.push_back(operandArgument(op, info, position++));
    call.arguments.back().dtype = numbers;
  }
  checkNothingLeft(op, *call.op, position);
  return call;
}

std::vector<c10::IValue> takeResults(const Operator &op, torch::jit::Stack &stack, size_t named) {
  std::vector<FlatResult> flat = flatten(op, stack);
  size_t given = flat.size();
  if (flat.size() != named)
    std::erase_if(flat, [](const FlatResult &result) { return result.written; });
  if (flat.size() != named)
    std::erase_if(flat, [](const FlatResult &result) { return isUndefined(result.value); });
  if (flat.size() != named)
    userError(fmt::format("'{}' op gives {} results, the text names {}", op.info.name, given, named));
  std::vector<c10::IValue> results;
  for (FlatResult &result : flat)
    results.push_back(std::move(result.value));
  return results;
}

} // namespace graphopt::runtime
