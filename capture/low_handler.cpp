// A composite operator has no kernel below autograd: it goes on with the key included, so that what it calls
// is seen. Every other one is the sink's, and what it calls is its own business.
#include "capture/low_handler.h"

#include "capture/fallback.h"
#include "capture/keys.h"

namespace graphopt::capture {
namespace {

thread_local OperatorSink *lowSink = nullptr;

bool isMadeOfOthers(const c10::OperatorHandle &op, c10::DispatchKeySet below) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForAnyDispatchKey(below.remove(c10::DispatchKey::BackendSelect));
}

void handleLow(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  c10::DispatchKeySet below = keys & kBelowCaptureLow;
  if (lowSink && isMadeOfOthers(op, below))
    return op.redispatchBoxed(below, stack);
  c10::impl::ExcludeDispatchKeyGuard off(kCaptureLow);
  if (lowSink)
    lowSink->onCall(op, below, stack);
  else
    op.redispatchBoxed(below, stack);
}

const Fallback &registration =
    *new Fallback(kCaptureLow, c10::KernelFunction::makeFromBoxedFunction<&handleLow>(), "graphopt probes");

} // namespace

LowInterception::LowInterception(OperatorSink &sink) : before_(lowSink), include_(kCaptureLow) {
  lowSink = &sink;
}

LowInterception::~LowInterception() { lowSink = before_; }

const std::string &lowRegistrationError() { return registration.error; }

} // namespace graphopt::capture
