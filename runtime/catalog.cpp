// Facts come from the operator table; evaluation runs the operator itself, so folding can never disagree with
// ATen.
#include "runtime/catalog.h"

#include "runtime/ambient.h"
#include "runtime/call.h"
#include "runtime/content.h"

#include <ATen/Functions.h>

namespace graphopt::runtime {
namespace {
using ir::Attr;
using ir::Type;

constexpr int64_t kMaxElements = 64; // constants that are worth folding are shapes and indices

/// A small integer or bool tensor on the CPU, or an integer or bool scalar.
bool isSmallConstant(const Type &type) {
  if (type.kind == Type::Kind::Int || type.kind == Type::Kind::Bool)
    return true;
  if (!type.isTensor() || !(ir::isInteger(type.dtype) || type.dtype == at::kBool))
    return false;
  if (type.device && !type.device->isCpu())
    return false;
  ir::Dim numel = type.numel();
  return numel.isConstant() && numel.value() <= kMaxElements;
}

bool canEvaluate(const ir::Op &op, const Call &call) {
  const ir::OpInfo &info = call.op->info;
  if (op.kind != ir::Op::Kind::Call || info.random || info.metadataOnly)
    return false;
  for (const ir::ArgInfo &arg : info.args)
    if (arg.written)
      return false;
  for (const ir::Value *result : op.results())
    if (!isSmallConstant(result->type))
      return false;
  bool small = true;
  op.forEachValue([&](const ir::Operand &operand) { small &= isSmallConstant(operand.value->type); });
  return small && !op.results().empty();
}

Attr contentOfResult(const c10::IValue &value) {
  return value.isTensor() ? contentOf(value.toTensor()) : toAttr(value.toScalar());
}

class DispatcherCatalog final : public ir::OpCatalog {
public:
  const ir::OpInfo *find(std::string_view irName) const override {
    const Operator *op = findOperator(irName);
    return op ? &op->info : nullptr;
  }

  std::optional<std::vector<Attr>> evaluate(const ir::Op &op,
                                            const std::vector<Attr> &contents) const override {
    try {
      return run(op, contents);
    } catch (const std::exception &) {
      return std::nullopt; // a literal that does not fit, or an operator that refuses: the op stays and
                           // raises when it runs
    }
  }

private:
  static std::optional<std::vector<Attr>> run(const ir::Op &op, const std::vector<Attr> &contents) {
    if (op.kind != ir::Op::Kind::Call)
      return std::nullopt;
    Call call = matchCall(op);
    if (!canEvaluate(op, call))
      return std::nullopt;
    AmbientScope scope(c10::kCPU);
    scope.enter(Ambient{});
    std::map<const ir::Value *, at::Tensor> tensors;
    size_t next = 0;
    op.forEachValue([&](const ir::Operand &operand) {
      tensors[operand.value] = tensorFromContent(operand.value->type, contents.at(next++));
    });
    SymValues noSyms;
    auto lookUp = [&](const ir::Value &value) { return c10::IValue(tensors.at(&value)); };
    torch::jit::Stack stack = stackFor(call, {lookUp, noSyms});
    call.op->handle.callBoxed(stack);
    std::vector<Attr> results;
    for (const c10::IValue &value : takeResults(*call.op, stack, op.results().size()))
      results.push_back(contentOfResult(value));
    return results;
  }
};

} // namespace

const ir::OpCatalog &dispatcherCatalog() {
  static const DispatcherCatalog catalog;
  return catalog;
}

} // namespace graphopt::runtime
