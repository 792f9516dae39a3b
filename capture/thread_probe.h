// The thread's state that decides what an operator does, as one word to compare.
#pragma once
#include "capture/segment.h"

#include <ATen/autocast_mode.h>

namespace graphopt::capture {

class ThreadProbe {
public:
  /// For the calling thread; not to be used on another.
  ThreadProbe() : autograd_(&c10::AutogradState::get_tls_state()) {}

  ThreadWord now(c10::DispatchKeySet keys) const {
    ThreadWord word = autograd_->get_grad_mode() | autograd_->get_inference_mode() << 1 |
                      autograd_->get_fw_grad_mode() << 2;
    if (keys.has_any(c10::autocast_dispatch_keyset)) [[unlikely]]
      word |= autocast(keys);
    return word;
  }
  static bool grad(ThreadWord word) { return word & 1; }
  static bool inference(ThreadWord word) { return word >> 1 & 1; }
  static bool autocast(ThreadWord word) { return word >> 3 & 1; }
  static bool autocastCache(ThreadWord word) { return word >> 4 & 1; }
  /// Of the device the word was made for.
  static c10::ScalarType autocastDtype(ThreadWord word) {
    return static_cast<c10::ScalarType>(word >> 8 & 0xff);
  }

private:
  static ThreadWord autocast(c10::DispatchKeySet keys);

  const c10::AutogradState *autograd_;
};

/// Whose autocast keys are among `keys`; nothing when none are.
std::optional<c10::DeviceType> autocastDevice(c10::DispatchKeySet keys);

} // namespace graphopt::capture
