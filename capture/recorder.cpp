// Arguments are read before the operator runs (it may change lists and tensors), results after. An operator
// that throws leaves no row.
#include "capture/recorder.h"

#include "capture/ambient.h"
#include "capture/tensor_type.h"
#include "capture/to_attr.h"

namespace graphopt::capture {
namespace {

using ir::Mark;

void appendBorder(std::string &border, std::string reason) {
  if (reason.empty())
    return;
  border += border.empty() ? reason : "; " + reason;
}

} // namespace

TraceOperand Recorder::tensorOperand(const c10::IValue &value, const ArgumentFacts &argument) {
  TraceOperand operand;
  if (!value.isTensor() || !value.toTensor().defined())
    return operand;
  const at::Tensor &tensor = value.toTensor();
  operand.value = table_.use(tensor);
  Seen seen{operand.value,
            tensor.unsafeGetTensorImpl(),
            nullptr,
            argument.isWritten,
            argument.isAliased,
            false,
            {}};
  FamilyId family = trace_.values[operand.value].family;
  if (!argument.isWritten && trace_.families[family].isUninitialized)
    seen.kept = tensor;
  seen_.push_back(std::move(seen));
  return operand;
}

TraceOperand Recorder::listOperand(const c10::IValue &value, const ArgumentFacts &argument) {
  TraceOperand operand;
  if (!value.isList())
    return operand;
  operand.isList = true;
  for (const c10::IValue &item : value.toListRef())
    operand.items.push_back(tensorOperand(item, argument));
  return operand;
}

/// Operands do not move any more: each tensor seen gets the place whose mark it decides.
void Recorder::linkOperands(std::vector<TraceOperand> &operands, size_t &next) {
  for (TraceOperand &operand : operands) {
    linkOperands(operand.items, next);
    if (operand.value == kNone)
      continue;
    seen_[next].operand = &operand;
    if (seen_[next].isWritten)
      operand.mark = Mark::Write;
    ++next;
  }
}

void Recorder::takeArguments(TraceCall &call, const torch::jit::Stack &stack) {
  const std::vector<ArgumentFacts> &arguments = call.facts->arguments;
  // The stack may hold values of others below.
  const c10::IValue *values = stack.data() + (stack.size() - arguments.size());
  call.operands.reserve(arguments.size());
  attrs_.clear();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ArgumentFacts &argument = arguments[i];
    switch (argument.role) {
    case ArgumentFacts::Role::Tensor:
      call.operands.push_back(tensorOperand(values[i], argument));
      break;
    case ArgumentFacts::Role::TensorList:
      call.operands.push_back(listOperand(values[i], argument));
      break;
    case ArgumentFacts::Role::Attr: {
      ir::Attr attr = toAttr(values[i], *argument.type);
      if (!argument.defaultValue || !(*argument.defaultValue == attr))
        attrs_.push_back({argument.name, std::move(attr)});
    }
    }
  }
  call.attrs.assign(std::make_move_iterator(attrs_.begin()), std::make_move_iterator(attrs_.end()));
  size_t next = 0;
  linkOperands(call.operands, next);
}

/// The operand whose memory the tensor shares: the one that the schema calls aliased, else the first.
Recorder::Seen *Recorder::aliased(const at::Tensor &tensor) {
  FamilyId family = table_.familyOf(tensor);
  Seen *found = nullptr;
  for (Seen &seen : seen_) {
    if (family == kNone ? seen.impl != tensor.unsafeGetTensorImpl()
                        : trace_.values[seen.value].family != family)
      continue;
    if (!found || (seen.isAliased && !found->isAliased))
      found = &seen;
  }
  return found;
}

void Recorder::takeTensor(TraceCall &call, const at::Tensor &tensor) {
  if (!tensor.defined())
    return takePlain(call, ir::Type::Kind::None);
  auto index = static_cast<int32_t>(trace_.calls.size());
  for (Seen &seen : seen_) {
    if (seen.impl != tensor.unsafeGetTensorImpl() || !seen.isWritten)
      continue;
    bool sameFamily = trace_.values[seen.value].family == table_.familyOf(tensor);
    if (call.facts->viewName.empty() && sameFamily && hasGeometry(trace_.values[seen.value].type, tensor))
      return; // the written argument itself
    if (call.facts->viewName.empty())
      appendBorder(call.border, "changes the sizes or the memory of its argument");
    else
      seen.operand->mark = Mark::Alias;
  }
  Seen *operand = aliased(tensor);
  bool isKnownMemory = table_.familyOf(tensor) != kNone;
  if (operand && operand->operand->mark == Mark::None)
    operand->operand->mark = Mark::Alias;
  if (operand)
    operand->wasAliased = true;
  else if (isKnownMemory)
    noteSharedMemory(call, tensor);
  ValueId value = table_.addResult(tensor, index);
  call.results.push_back(value);
  if (!isKnownMemory && call.facts->isUninitialized && tensor.numel() > 0)
    trace_.families[trace_.values[value].family].isUninitialized = true;
}

/// Memory of no operand: of an earlier result of the same call (`where(mask)` unbinds what it made), which
/// matters only to writes, or of a stranger.
void Recorder::noteSharedMemory(TraceCall &call, const at::Tensor &tensor) {
  TraceFamily &family = trace_.families[table_.familyOf(tensor)];
  const TraceValue &base = trace_.values[family.base()];
  bool isSibling =
      base.kind == ir::Value::Kind::Result && base.definedBy == static_cast<int32_t>(trace_.calls.size());
  if (isSibling)
    family.hasSiblings = true;
  else
    appendBorder(call.border, "a result shares memory with a tensor that is no operand");
}

void Recorder::takeResult(TraceCall &call, const c10::IValue &value) {
  if (value.isTensor()) {
    takeTensor(call, value.toTensor());
    return;
  }
  if (value.isTensorList()) {
    for (const c10::IValue &item : value.toListRef())
      takeTensor(call, item.toTensor());
    return;
  }
  takePlain(call, value.isInt()      ? ir::Type::Kind::Int
                  : value.isDouble() ? ir::Type::Kind::Float
                  : value.isBool()   ? ir::Type::Kind::Bool
                                     : ir::Type::Kind::List);
}

/// A number beside tensors, or an undefined tensor: it has a place among the results and no memory.
void Recorder::takePlain(TraceCall &call, ir::Type::Kind kind) {
  TraceValue plain;
  plain.type = ir::Type::scalar(kind);
  plain.definedBy = static_cast<int32_t>(trace_.calls.size());
  call.results.push_back(static_cast<ValueId>(trace_.values.size()));
  trace_.values.push_back(std::move(plain));
}

void Recorder::noteWrites(TraceCall &call) {
  for (const Seen &seen : seen_) {
    if (!seen.isWritten || !call.facts->viewName.empty())
      continue;
    FamilyId family = trace_.values[seen.value].family;
    trace_.families[family].isUninitialized = false;
    call.writes.push_back(family);
    trace_.families[family].isWrittenWithGrad |= call.ambient.grad;
    if (trace_.families[family].hasSiblings)
      appendBorder(call.border, "writes memory that several results of one operator share");
    TraceValue &base = trace_.values[trace_.families[family].base()];
    if (!base.isHostMemory)
      continue;
    base.kind = ir::Value::Kind::Outside; // a constant is never written
    appendBorder(call.border, "writes memory that the host owns (from_blob)");
  }
  bool declared = !call.facts->viewName.empty() && !seen_.empty() &&
                  trace_.values[seen_.front().value].kind != ir::Value::Kind::Result;
  if (declared && call.facts->base != "detach_")
    appendBorder(call.border, "changes the sizes of a tensor that the caller holds");
}

/// Memory from empty() that is read before any operator wrote it was filled by the host.
void Recorder::noteReads() {
  for (Seen &seen : seen_) {
    FamilyId family = trace_.values[seen.value].family;
    if (seen.kept.defined() && !seen.wasAliased && trace_.families[family].isUninitialized)
      table_.freezeContents(family, seen.kept);
    seen.kept.reset();
  }
}

void Recorder::addBorder(std::string reason) {
  TraceCall call;
  call.border = std::move(reason);
  trace_.calls.push_back(std::move(call));
}

void Recorder::noteStrays() {
  if (!strays_)
    return;
  if (strays_->backward.exchange(false))
    addBorder("backward ran inside the call");
  if (strays_->otherThread.exchange(false))
    addBorder("operators ran on another thread");
}

void Recorder::onCall(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  const OperatorFacts &facts = factsOf(op);
  if (facts.isMetadata) {
    op.redispatchBoxed(keys, stack);
    return;
  }
  noteStrays();
  seen_.clear();
  TraceCall call;
  call.facts = &facts;
  takeArguments(call, *stack);
  call.ambient = ambientNow(device_);
  call.scope = scopes_.scopeOf(call.operands);
  op.redispatchBoxed(keys, stack);
  call.name = facts.viewName.empty() ? facts.name : facts.viewName;
  for (const c10::IValue &value : torch::jit::last(*stack, facts.returns))
    if (facts.hasTensorResult)
      takeResult(call, value);
  noteWrites(call);
  noteReads();
  appendBorder(call.border, table_.takeRemark());
  trace_.calls.push_back(std::move(call));
}

} // namespace graphopt::capture
