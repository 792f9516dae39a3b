// The dispatcher key that capture sits on, in one place: later versions of LibTorch may take it.
//
// DeferredInit is above autocast and autograd, is in no alias of composite kernels, and nothing in
// LibTorch 2.11 registers on it, so its fallback sees every operator as the user called it. Without the
// thread's include no call reaches it.
#pragma once
#include <c10/core/DispatchKeySet.h>

namespace graphopt::capture {

inline constexpr c10::DispatchKey kCaptureHigh = c10::DispatchKey::DeferredInit;
inline constexpr c10::DispatchKeySet kBelowCaptureHigh{c10::DispatchKeySet::FULL_AFTER, kCaptureHigh};

} // namespace graphopt::capture
