// Which of the tensors bound in a visit of a segment share memory.
#pragma once
#include "capture/placeholder.h"

#include <bit>
#include <cstdint>
#include <vector>

namespace graphopt::capture {

/// From memory to the first value that was bound with it. Emptied in no time: entries name the visit they
/// are of.
class MemoryTable {
public:
  /// For a new visit of a segment with so many live-ins.
  void begin(size_t liveIns) {
    ++visit_;
    if (entries_.size() < 2 * liveIns)
      entries_.assign(std::bit_ceil(2 * liveIns + 2), {});
  }
  /// The value that has the memory; notes `value` as it where there is none or `isCurrent` says that the
  /// known one is not bound any more.
  template <class F> ValueId find(const c10::StorageImpl *memory, ValueId value, F &&isCurrent) {
    const size_t mask = entries_.size() - 1;
    size_t at = (reinterpret_cast<uintptr_t>(memory) >> 4) * 0x9e3779b97f4a7c15ull >> 20 & mask;
    for (; entries_[at].visit == visit_; at = (at + 1) & mask)
      if (entries_[at].memory == memory) {
        if (!isCurrent(entries_[at].value))
          entries_[at].value = value;
        return entries_[at].value;
      }
    entries_[at] = {memory, visit_, value};
    return value;
  }

private:
  struct Entry {
    const c10::StorageImpl *memory = nullptr;
    uint64_t visit = 0;
    ValueId value = 0;
  };
  std::vector<Entry> entries_;
  uint64_t visit_ = 0;
};

} // namespace graphopt::capture
