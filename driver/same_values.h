// Whether two runs of the same operators gave the same, and what differs.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>

namespace graphopt::driver {

/// How near two values are to each other.
enum class Nearness {
  Same,     ///< the same bits, NaN equal to NaN
  Rounding, ///< floating, apart by no more than another order of the same additions makes them
  Apart,
};
Nearness nearness(const at::Tensor &a, const at::Tensor &b);

/// Copies of the contents may be compared later: dense, without history, and not inference tensors.
at::Tensor contentsOf(const at::Tensor &tensor);

/// Sizes, strides and dtype: empty when they are the same. (Not requires_grad: the program may have set it.)
std::string metadataDifference(const at::Tensor &expected, const at::Tensor &actual);

} // namespace graphopt::driver
