// The guards of a capture as a flat check for calls like one that was checked before: what a trusted call
// costs when nothing has changed.
//
// It remembers what the first call that satisfied all guards looked like. A call that looks the same
// satisfies them too; any other is checkGuards()' business, which also knows the reasons.
#pragma once
#include "capture/capture.h"

#include <atomic>
#include <memory>

namespace graphopt::capture {

class GuardProgram {
public:
  /// The capture has to outlive it, at its address.
  explicit GuardProgram(const Capture &capture);
  ~GuardProgram();
  GuardProgram(const GuardProgram &) = delete;
  GuardProgram &operator=(const GuardProgram &) = delete;

  /// True: all guards hold. False: that is not known.
  bool holds(const std::vector<c10::IValue> &args) const;
  /// checkGuards() has just found that they hold for these arguments, on this thread.
  void remember(const std::vector<c10::IValue> &args) const;

private:
  struct Seen;
  const Capture &capture_;
  const c10::DeviceType device_;
  bool isFlat_ = true; // no guard about how tensors lie in memory
  mutable std::atomic<const Seen *> seen_{nullptr};
};

} // namespace graphopt::capture
