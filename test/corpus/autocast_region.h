// A region of autocast on the CPU, in bf16, as a program writes it.
#pragma once
#include <ATen/autocast_mode.h>

namespace graphopt::corpus {

class AutocastRegion {
public:
  /// Nothing when it is not wanted.
  explicit AutocastRegion(bool isWanted) : isWanted_(isWanted) {
    if (!isWanted_)
      return;
    at::autocast::increment_nesting();
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  }
  ~AutocastRegion() {
    if (!isWanted_)
      return;
    at::autocast::set_autocast_enabled(at::kCPU, false);
    if (at::autocast::decrement_nesting() == 0)
      at::autocast::clear_cache();
  }
  AutocastRegion(const AutocastRegion &) = delete;
  AutocastRegion &operator=(const AutocastRegion &) = delete;

private:
  const bool isWanted_;
};

} // namespace graphopt::corpus
