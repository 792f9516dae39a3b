// What is known of tensors' sizes before compiled calls show it; torch._dynamo.mark_dynamic in C++.
#pragma once
#include <graphopt/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>

namespace graphopt {

/// Sizes of the dim differ between calls: where the tensor is an operand of a compiled call, other sizes in
/// [min, max] need no recording, 0 and 1 as little as others. Holds for this tensor object, and once a call
/// was recorded with it, for the tensors that take its place in later calls. `dim` counts from the end when
/// negative. Throws a user error when there is no such dim, or when the tensor's own size is out of range.
GRAPHOPT_API void markDynamic(const at::Tensor &tensor, int64_t dim, int64_t min = 0,
                              int64_t max = std::numeric_limits<int64_t>::max());
/// Each size of the dim is to be recorded on its own, however often it changes.
GRAPHOPT_API void markStatic(const at::Tensor &tensor, int64_t dim);

} // namespace graphopt
