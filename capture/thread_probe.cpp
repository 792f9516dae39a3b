// Autocast's part: its dtypes and its cache switch are the thread's, and in no key.
#include "capture/thread_probe.h"

namespace graphopt::capture {

ThreadWord ThreadProbe::autocast(c10::DispatchKeySet off) {
  ThreadWord word = static_cast<ThreadWord>(at::autocast::is_autocast_cache_enabled()) << 5;
  if (!off.has(c10::DispatchKey::AutocastCPU))
    word |= 1u << 3 | static_cast<ThreadWord>(at::autocast::get_autocast_dtype(c10::kCPU)) << 8;
  if (!off.has(c10::DispatchKey::AutocastCUDA))
    word |= 1u << 4 | static_cast<ThreadWord>(at::autocast::get_autocast_dtype(c10::kCUDA)) << 16;
  return word;
}

} // namespace graphopt::capture
