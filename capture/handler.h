// The boxed fallback behind capture: registered once when the library is loaded, active for one thread at a
// time.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <memory>

namespace graphopt::capture {

/// Gets the operators that the thread calls.
class OperatorSink {
public:
  /// Must run the operator (`op.redispatchBoxed(keys, stack)`) and leave its results on the stack. The stack
  /// may hold values of others below the operator's own arguments. Operators called while it runs are not
  /// seen.
  virtual void onCall(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) = 0;

protected:
  ~OperatorSink() = default;
};

/// What ran beside the recording thread's own calls. Travels with LibTorch's thread state to engine threads
/// and forked tasks.
struct Strays : c10::DebugInfoBase {
  std::atomic<bool> backward{false};    ///< the autograd engine ran operators
  std::atomic<bool> otherThread{false}; ///< a task that the program started ran operators
};

/// While it lives, the thread's operators go to `sink`. One at a time for each thread.
class Interception {
public:
  explicit Interception(OperatorSink &sink);
  ~Interception();
  Interception(const Interception &) = delete;
  Interception &operator=(const Interception &) = delete;
  Strays &strays() { return *strays_; }

private:
  std::shared_ptr<Strays> strays_;
  c10::DebugInfoGuard debugInfo_;
  c10::impl::IncludeDispatchKeyGuard include_;
};

/// As an Interception, without a record of what other threads do: for calls that are checked operator by
/// operator.
class SinkScope {
public:
  explicit SinkScope(OperatorSink &sink);
  ~SinkScope();
  SinkScope(const SinkScope &) = delete;
  SinkScope &operator=(const SinkScope &) = delete;

private:
  c10::impl::IncludeDispatchKeyGuard include_;
};

/// A SinkScope inside of others, where operators of theirs run.
class NestedSink {
public:
  explicit NestedSink(OperatorSink &sink);
  ~NestedSink();
  NestedSink(const NestedSink &) = delete;
  NestedSink &operator=(const NestedSink &) = delete;

private:
  OperatorSink *before_;
  c10::impl::LocalDispatchKeySet keys_;
};

bool isIntercepting();
/// What the fallback does; for kernels that stand beside it.
void handleBoxed(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack);
/// Why the fallback is not in place; empty when it is.
const std::string &registrationError();

} // namespace graphopt::capture
