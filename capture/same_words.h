// Comparing a few dozen words of memory, inline.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace graphopt::capture {

/// Whether two places in memory hold the same words. No call and no branch: a loop would cost a misprediction
/// at its end.
template <size_t Words> [[gnu::always_inline]] inline bool sameWords(const void *a, const void *b) {
  static_assert(Words >= 2);
  using Lane [[gnu::vector_size(16)]] = uint64_t;
  constexpr size_t kSize = Words * 8;
  const auto *left = static_cast<const char *>(a), *right = static_cast<const char *>(b);
  Lane differences{};
#pragma GCC unroll 32
  for (size_t at = 0; at < kSize; at += sizeof(Lane)) {
    const size_t begin = at + sizeof(Lane) <= kSize ? at : kSize - sizeof(Lane); // the last two may overlap
    Lane x, y;
    std::memcpy(&x, left + begin, sizeof(Lane));
    std::memcpy(&y, right + begin, sizeof(Lane));
    differences |= x ^ y;
  }
  return (differences[0] | differences[1]) == 0;
}

} // namespace graphopt::capture
