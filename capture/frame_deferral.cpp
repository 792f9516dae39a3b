// Which operators are put off, and what becomes of the others. The answers depend on the same facts in a
// recording and in a shadowed call: "pending" is what the segment so far made or wrote, whether it has run or
// not.
#include "capture/frame.h"

#include "capture/keys.h"
#include "capture/operands.h"

#include <ATen/core/Tensor.h>
#include <algorithm>

namespace graphopt::capture {
namespace {

bool hasGenerator(const OperatorFacts &facts, const torch::jit::Stack &stack) {
  const c10::IValue *values = stack.data() + (stack.size() - facts.arguments.size());
  return std::any_of(values, values + facts.arguments.size(),
                     [](const c10::IValue &value) { return value.isGenerator() || value.isObject(); });
}

} // namespace

bool Frame::isPending(const c10::TensorImpl &tensor) const {
  if (state_ == State::Record)
    return recorder_->isPending(tensor);
  if (isPromised(tensor))
    return true;
  return std::any_of(written_.begin(), written_.end(), [&](const at::Tensor &written) {
    return storageOf(*written.unsafeGetTensorImpl()) == storageOf(tensor);
  });
}

void Frame::runDirectly(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  ++counters_.directOps;
  RunningScope running(isRunning_);
  op.redispatchBoxed(keys, stack);
}

/// To memory of the program's.
bool Frame::anyWritePending() const {
  return state_ == State::Record ? recorder_->writesLiveIns() : !written_.empty();
}

void Frame::runOpen(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
  c10::impl::PODLocalDispatchKeySet open{};
  open.set_included(local.included_);
  open.set_excluded(local.excluded_.remove(kCaptureHigh));
  c10::impl::ForceDispatchKeyGuard guard{c10::impl::LocalDispatchKeySet(open)};
  op.redispatchBoxed(keys, stack);
}

bool Frame::anyPending(const OperatorFacts &facts, const torch::jit::Stack &stack) const {
  bool any = false;
  forEachOperand(facts, stack,
                 [&](const c10::TensorImpl &impl, const ArgumentFacts &) { any |= isPending(impl); });
  return any;
}

/// Arithmetic on numbers that the host holds as tensors, and reads of memory that the host may overwrite:
/// nothing to gain, or not safe, to put off.
bool Frame::mayRunAtOnce(const OperatorFacts &facts, const torch::jit::Stack &stack) {
  if (facts.isRandom || facts.isWrite || !facts.hasTensorResult)
    return false;
  bool allNumbers = true, any = false, hostMemory = false;
  forEachOperand(facts, stack, [&](const c10::TensorImpl &impl, const ArgumentFacts &) {
    any = true;
    allNumbers &= impl.dim() == 0 && impl.device().is_cpu() && !impl.requires_grad();
    hostMemory |= !isPromised(impl) && isHostMemory(impl);
  });
  // Host memory may be another tensor's under another name: a pending write could be to it.
  return any && (allNumbers || (hostMemory && !anyWritePending())) && !anyPending(facts, stack);
}

/// What decides, of the tensors an operator is called on.
struct Frame::Operands {
  bool anyMask = false;      ///< in a list, as indices are: a mask makes sizes of values
  bool anyStrange = false;   ///< not a plain strided tensor with memory
  bool anyHost = false;      ///< memory that the host may overwrite
  bool writesShared = false; ///< memory that tensors hold which the frame does not know
};

Frame::Operands Frame::look(const OperatorFacts &facts, const torch::jit::Stack &stack) {
  Operands seen;
  forEachOperand(facts, stack, [&](const c10::TensorImpl &impl, const ArgumentFacts &argument) {
    bool isMask =
        impl.dtype() == caffe2::TypeMeta::Make<bool>() || impl.dtype() == caffe2::TypeMeta::Make<uint8_t>();
    seen.anyMask |= isMask && argument.role == ArgumentFacts::Role::TensorList;
    seen.anyStrange |= impl.layout() != c10::kStrided || impl.is_python_dispatch() ||
                       impl.device().is_meta() || (!isPromised(impl) && !impl.unsafe_storage());
    if (isPromised(impl))
      return;
    seen.anyHost |= isHostMemory(impl);
    seen.writesShared |= argument.isWritten && isShared(impl);
  });
  return seen;
}

/// Whether somebody the frame does not know holds the tensor's memory too: a pending write would go unseen.
bool Frame::isShared(const c10::TensorImpl &impl) const {
  size_t owners = 1;
  if (state_ == State::Record) {
    if (recorder_->isMadeHere(impl))
      return false;
    owners = recorder_->ownersOf(storageOf(impl)) + !recorder_->knows(impl);
  }
  return impl.unsafe_storage().use_count() > owners;
}

/// Reasons that are about values alone: an operator on values that are there already need not wait for
/// others.
std::string Frame::whyNowForValues(const OperatorFacts &facts, const Operands &operands,
                                   const torch::jit::Stack &stack) const {
  if (facts.readsData || (facts.hasPlainResult && !facts.isMetadata))
    return "the host reads a value";
  const bool masksIndex = operands.anyMask && facts.base.find("index") != std::string::npos &&
                          !fillsThroughMask(facts, stack.data() + stack.size() - facts.arguments.size());
  if (facts.sizesFromData || masksIndex)
    return "sizes follow from values";
  if (operands.anyHost && !facts.isWrite && !anyWritePending())
    return "reads memory that the host may overwrite";
  return "";
}

/// Reasons for which all that is pending has to come first.
std::string Frame::whyNow(const OperatorFacts &facts, c10::DispatchKeySet keys, const Operands &operands,
                          const torch::jit::Stack &stack) const {
  if (operands.anyHost)
    return "reads or writes memory that the host may overwrite";
  if (facts.changesGeometry)
    return "changes its argument's sizes in place";
  if (operands.anyStrange)
    return "an operand that is not a plain strided tensor";
  if (operands.writesShared)
    return "writes memory that other tensors hold";
  if (facts.isOpaque)
    return "it is outside of aten, where schemas need not say all: define it with at::Tag::pt2_compliant_tag "
           "when "
           "it reads and writes nothing but its arguments";
  if (!facts.isTrusted && graph_.isLiar(facts))
    return "a verify run has found that it reads or writes more than its arguments";
  if (hasGenerator(facts, stack))
    return "draws from a generator of its own, or takes an object";
  if (keys.has(c10::DispatchKey::AutocastCPU) && keys.has(c10::DispatchKey::AutocastCUDA))
    return "autocast of two devices";
  return "";
}

/// Runs an operator that is not put off, and what has to come before it.
bool Frame::runNow(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                   torch::jit::Stack *stack) {
  const Operands operands = look(facts, *stack);
  std::string reason = whyNowForValues(facts, operands, *stack);
  bool waits = reason.empty() || facts.isRandom;
  if (reason.empty())
    reason = whyNow(facts, keys, operands, *stack);
  if (reason.empty())
    return false;
  if (waits || anyPending(facts, *stack))
    breakGraph(facts.base + ": " + reason);
  runDirectly(op, keys, stack);
  return true;
}

void Frame::slowCall(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                     torch::jit::Stack *stack) {
  if (facts.isComposite) { // host code under an operator's name: what it calls is checked instead
    runOpen(op, keys, stack);
    return;
  }
  if (facts.isMetadata || mayRunAtOnce(facts, *stack)) {
    runDirectly(op, keys, stack);
    return;
  }
  if (runNow(op, facts, keys, stack))
    return;
  leaveUnbegun();
  if (state_ == State::Record) {
    record(op, facts, keys, stack);
    return;
  }
  if (state_ == State::Shadow) {
    if (!goOn(op, facts, keys, stack))
      diverge(op, facts, keys, stack);
    return;
  }
  if (!tryStarts(op, facts, keys, stack) && !tryTemplates(op, facts, keys, stack))
    record(op, facts, keys, stack);
}

} // namespace graphopt::capture
