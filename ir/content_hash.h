// The hash that names the file of a constant which is too large for the text.
#pragma once
#include "ir/dtype.h"

#include <span>
#include <string>

namespace graphopt::ir {

/// FNV-1a over the dtype, the sizes and the elements in C order, as 16 hexadecimal digits: the same on every
/// machine of one byte order. It tells files apart and finds accidents; it is no protection against forgery.
std::string contentHash(DType dtype, std::span<const int64_t> sizes, std::string_view elements);

} // namespace graphopt::ir
