// Whether two tensors are equal bit for bit: what compiled and eager runs are compared with.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstring>

namespace graphopt::test {

/// Sizes, dtype and contents; layouts may differ. Undefined equals undefined alone.
inline bool sameBits(const at::Tensor &a, const at::Tensor &b) {
  if (!a.defined() || !b.defined())
    return a.defined() == b.defined();
  if (a.sizes() != b.sizes() || a.dtype() != b.dtype())
    return false;
  const at::Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

} // namespace graphopt::test
