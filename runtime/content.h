// Literals to tensors and back, and random tensors for programs that are given as text.
#pragma once
#include "ir/type.h"
#include "runtime/to_ivalue.h"

#include <ATen/core/Tensor.h>

namespace graphopt::runtime {

/// The tensor of a type with the given contents: nested lists of numbers, a bare number for 0-dim. Sizes,
/// strides, device, conj, neg and wrapped are the type's; scalar types (int, float, bool) give 0-dim tensors.
/// Throws a user error when the nesting does not match the sizes, or when the dtype has no literals.
at::Tensor tensorFromContent(const ir::Type &type, const ir::Attr &content, const SymValues &syms = {});

/// A tensor of the type (dtype, strides, device, conj, neg, wrapped) with the logical values of `values`,
/// which has the type's sizes.
at::Tensor inLayout(const at::Tensor &values, const ir::Type &type, const SymValues &syms = {});

/// The contents of a tensor as nested lists, or one number for 0-dim; logical values (conj and neg resolved),
/// read from the device if need be.
ir::Attr contentOf(const at::Tensor &tensor);

/// What an input that nobody supplies is filled with.
struct InputSpec {
  uint64_t seed = 1;
  int64_t low = 0, high = 2; // integers are drawn from [low, high)
};
/// A random tensor of the type: floats and complex numbers normal(0, 1), integers uniform in [low, high),
/// bools fair. The same seed gives the same values on every device and for every stride order. Throws a user
/// error for a sym without a value.
at::Tensor makeInput(const ir::Type &type, const InputSpec &spec, const SymValues &syms = {});

/// The type's sizes as numbers; a user error names the sym that has no value.
std::vector<int64_t> sizesOf(const ir::Type &type, const SymValues &syms);

/// Where a tensor of the type lives; the type's own device, else `graphDevice`.
c10::Device deviceOf(const ir::Type &type, const ir::Device &graphDevice);

} // namespace graphopt::runtime
