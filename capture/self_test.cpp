// Asks the dispatcher itself, with a real call, whether capture works in this process.
#include "capture/capture.h"
#include "capture/handler.h"
#include "capture/keys.h"
#include "capture/placeholder.h"

#include <ATen/ops/zeros.h>

namespace graphopt::capture {
namespace {

/// Counts the calls it sees and runs them.
struct CountingSink final : OperatorSink {
  size_t calls = 0;
  void onCall(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) override {
    ++calls;
    op.redispatchBoxed(keys, stack);
  }
};

std::optional<std::string> runSelfTest() {
  if (!registrationError().empty())
    return fmt::format("dispatcher key {} is taken by another library: {}", c10::toString(kCaptureHigh),
                       registrationError());
  CountingSink sink;
  {
    Interception interception(sink);
    at::zeros({1});
  }
  if (sink.calls != 1)
    return fmt::format("dispatcher key {} saw {} calls instead of 1", c10::toString(kCaptureHigh),
                       sink.calls);
  at::zeros({1});
  if (sink.calls != 1)
    return "operators were seen outside of a recording";
  if (std::string reason = placeholderSelfTest(); !reason.empty())
    return reason;
  return std::nullopt;
}

std::optional<std::string> &madeUpTrouble() {
  static std::optional<std::string> trouble;
  return trouble;
}

} // namespace

SelfTestTrouble::SelfTestTrouble(std::string trouble) { madeUpTrouble() = std::move(trouble); }
SelfTestTrouble::~SelfTestTrouble() { madeUpTrouble().reset(); }

std::optional<std::string> selfTest() {
  if (madeUpTrouble())
    return madeUpTrouble();
  if (isIntercepting())
    return std::nullopt; // a recording runs on this thread: it works
  static const std::optional<std::string> result = runSelfTest();
  return result;
}

} // namespace graphopt::capture
