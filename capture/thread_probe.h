// The thread's state that decides what an operator does, as one word to compare.
#pragma once
#include "capture/segment.h"

#include <ATen/autocast_mode.h>

namespace graphopt::capture {

class ThreadProbe {
public:
  /// For the calling thread; not to be used on another.
  ThreadProbe()
      : autograd_(&c10::AutogradState::get_tls_state()), keys_(&c10::impl::raw_local_dispatch_key_set) {}

  ThreadWord now() const {
    ThreadWord word = autograd_->get_grad_mode() | autograd_->get_inference_mode() << 1 |
                      autograd_->get_fw_grad_mode() << 2;
    // Of the thread and not of the operator: one that autocast has on no list may call others inside.
    if (const c10::DispatchKeySet off = keys_->excluded() & kAutocast; off != kAutocast) [[unlikely]]
      word |= autocast(off);
    return word;
  }
  static bool grad(ThreadWord word) { return word & 1; }
  static bool inference(ThreadWord word) { return word >> 1 & 1; }
  /// Of some device.
  static bool autocast(ThreadWord word) { return word >> 3 & 3; }
  static bool autocast(ThreadWord word, c10::DeviceType device) { return word >> bitOf(device) & 1; }
  /// The part of the word that says for which devices it is on, and in which dtypes.
  static ThreadWord autocastOf(ThreadWord word) { return word & 0x00ffff18u; }
  static ThreadWord autocastOf(ThreadWord word, c10::DeviceType device) {
    return word & (1u << bitOf(device) | (device == c10::kCPU ? 0x0000ff00u : 0x00ff0000u));
  }
  static bool autocastCache(ThreadWord word) { return word >> 5 & 1; }
  static c10::ScalarType autocastDtype(ThreadWord word, c10::DeviceType device) {
    return static_cast<c10::ScalarType>(word >> (device == c10::kCPU ? 8 : 16) & 0xff);
  }

private:
  static constexpr c10::DispatchKeySet kAutocast{c10::DispatchKey::AutocastCPU,
                                                 c10::DispatchKey::AutocastCUDA};
  static int bitOf(c10::DeviceType device) {
    return device == c10::kCPU ? 3 : device == c10::kCUDA ? 4 : 31; // 31: never set
  }
  static ThreadWord autocast(c10::DispatchKeySet off);

  const c10::AutogradState *autograd_;
  const c10::impl::PODLocalDispatchKeySet *keys_;
};

} // namespace graphopt::capture
