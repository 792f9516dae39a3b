// The dispatcher keys that capture sits on, in one place: later versions of LibTorch may take them.
//
// DeferredInit is above autocast and autograd, is in no alias of composite kernels, and nothing in
// LibTorch 2.11 registers on it, so its fallback sees every operator as the user called it. Without the
// thread's include no call reaches it. Fake is below autograd and above the backends: its fallback sees the
// operators that run in the end. In C++ it is free (Python's fake tensors come with their own mode).
#pragma once
#include <c10/core/DispatchKeySet.h>

namespace graphopt::capture {

inline constexpr c10::DispatchKey kCaptureHigh = c10::DispatchKey::DeferredInit;
inline constexpr c10::DispatchKeySet kBelowCaptureHigh{c10::DispatchKeySet::FULL_AFTER, kCaptureHigh};
inline constexpr c10::DispatchKey kCaptureLow = c10::DispatchKey::Fake;
inline constexpr c10::DispatchKeySet kBelowCaptureLow{c10::DispatchKeySet::FULL_AFTER, kCaptureLow};

} // namespace graphopt::capture
