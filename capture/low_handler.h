// The boxed fallback below autograd: sees what operators are made of, for one thread at a time.
#pragma once
#include "capture/handler.h"

namespace graphopt::capture {

/// While it lives, the operators that the thread runs below autograd go to `sink`, whatever called them: the
/// program, a composite operator, autograd's engine on this thread. Off while the sink's function runs.
class LowInterception {
public:
  explicit LowInterception(OperatorSink &sink);
  ~LowInterception();
  LowInterception(const LowInterception &) = delete;
  LowInterception &operator=(const LowInterception &) = delete;

private:
  OperatorSink *before_;
  c10::impl::IncludeDispatchKeyGuard include_;
};

/// Why the fallback is not in place; empty when it is.
const std::string &lowRegistrationError();

} // namespace graphopt::capture
