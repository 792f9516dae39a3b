// Autocast's part: its dtype and its cache switch are the thread's, and in no key.
#include "capture/thread_probe.h"

namespace graphopt::capture {

std::optional<c10::DeviceType> autocastDevice(c10::DispatchKeySet keys) {
  if (keys.has(c10::DispatchKey::AutocastCUDA))
    return c10::kCUDA;
  if (keys.has(c10::DispatchKey::AutocastCPU))
    return c10::kCPU;
  return std::nullopt;
}

ThreadWord ThreadProbe::autocast(c10::DispatchKeySet keys) {
  ThreadWord word = 1u << 3 | static_cast<ThreadWord>(at::autocast::is_autocast_cache_enabled()) << 4;
  if (keys.has(c10::DispatchKey::AutocastCUDA))
    word |= static_cast<ThreadWord>(at::autocast::get_autocast_dtype(c10::kCUDA)) << 8;
  if (keys.has(c10::DispatchKey::AutocastCPU)) {
    auto dtype = static_cast<ThreadWord>(at::autocast::get_autocast_dtype(c10::kCPU));
    word |= keys.has(c10::DispatchKey::AutocastCUDA) ? dtype << 16 : dtype << 8;
  }
  return word;
}

} // namespace graphopt::capture
