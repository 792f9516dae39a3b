// One function for all operators. Registration rebuilds dispatch tables, so it happens once, at load, and is
// never undone; a thread switches it on by including the key. The key is excluded while an operator runs:
// what the operator calls is its own business, and a recorder's own tensor work is never recorded.
#include "capture/handler.h"

#include "capture/fallback.h"
#include "capture/keys.h"

#include <graphopt/error.h>
#include <torch/csrc/autograd/graph_task.h>

namespace graphopt::capture {
namespace {

thread_local OperatorSink *activeSink = nullptr;

constexpr c10::DebugInfoKind kStrays = c10::DebugInfoKind::TEST_INFO;

bool isInBackward() { return torch::autograd::get_current_graph_task_id() != -1; }

void noteStray(bool backward) {
  // The kind is free for programs to use, so the type is asked.
  auto *strays = dynamic_cast<Strays *>(c10::ThreadLocalDebugInfo::get(kStrays));
  if (strays)
    (backward ? strays->backward : strays->otherThread) = true;
}

void handle(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  c10::impl::ExcludeDispatchKeyGuard off(kCaptureHigh);
  c10::DispatchKeySet below = keys & kBelowCaptureHigh;
  bool backward = isInBackward();
  if (activeSink && !backward) {
    activeSink->onCall(op, below, stack);
    return;
  }
  noteStray(backward);
  op.redispatchBoxed(below, stack);
}

const Fallback &registration =
    *new Fallback(kCaptureHigh, c10::KernelFunction::makeFromBoxedFunction<&handle>(), "graphopt capture");

} // namespace

Interception::Interception(OperatorSink &sink)
    : strays_(std::make_shared<Strays>()), debugInfo_(kStrays, strays_), include_(kCaptureHigh) {
  GO_ASSERT(!activeSink, "two interceptions on one thread");
  activeSink = &sink;
}

Interception::~Interception() { activeSink = nullptr; }

SinkScope::SinkScope(OperatorSink &sink) : include_(kCaptureHigh) {
  GO_ASSERT(!activeSink, "two interceptions on one thread");
  activeSink = &sink;
}

SinkScope::~SinkScope() { activeSink = nullptr; }

NestedSink::NestedSink(OperatorSink &sink)
    : before_(activeSink), keys_(c10::impl::tls_local_dispatch_key_set()) {
  activeSink = &sink;
  c10::impl::PODLocalDispatchKeySet open{};
  open.set_included(keys_.included_.add(kCaptureHigh));
  open.set_excluded(keys_.excluded_.remove(kCaptureHigh));
  c10::impl::_force_tls_local_dispatch_key_set(c10::impl::LocalDispatchKeySet(open));
}

NestedSink::~NestedSink() {
  activeSink = before_;
  c10::impl::_force_tls_local_dispatch_key_set(keys_);
}

void handleBoxed(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  handle(op, keys, stack);
}

bool isIntercepting() { return activeSink != nullptr; }

const std::string &registrationError() { return registration.error; }

} // namespace graphopt::capture
