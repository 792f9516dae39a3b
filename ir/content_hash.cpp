// Sizes count, so that two constants with the same bytes and other shapes have files of their own.
#include "ir/content_hash.h"

#include "ir/hash.h"

#include <fmt/format.h>

namespace graphopt::ir {

std::string contentHash(DType dtype, std::span<const int64_t> sizes, std::string_view elements) {
  Hasher hasher;
  hasher.add(dtypeName(dtype));
  hasher.add(sizes.size());
  for (int64_t size : sizes)
    hasher.add(static_cast<uint64_t>(size));
  hasher.add(elements);
  return fmt::format("{:016x}", hasher.value());
}

} // namespace graphopt::ir
