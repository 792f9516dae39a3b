// Gradients by autograd itself, for operators that were not taken apart.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace graphopt::runtime {

/// The same tensor without a past, as a leaf that requires gradients.
at::Tensor leafOf(const at::Tensor &tensor);

/// The gradients of `outputs` for `cotangents`, one each, with respect to leaves; undefined where an output
/// does not depend on one. Outputs without a history, and undefined cotangents, count for nothing.
std::vector<at::Tensor> gradientsOf(const std::vector<at::Tensor> &outputs,
                                    const std::vector<at::Tensor> &cotangents,
                                    const std::vector<at::Tensor> &leaves);

/// The same numbers with these strides, copied if they lie otherwise. Undefined stays undefined.
at::Tensor laidOut(const at::Tensor &tensor, const std::vector<int64_t> &strides);

} // namespace graphopt::runtime
