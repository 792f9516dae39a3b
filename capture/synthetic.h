// Operands for probes: tensors of given types with contents that no operator trips over.
#pragma once
#include "ir/type.h"

#include <ATen/core/Tensor.h>

namespace graphopt::capture {

/// What real kernels are given: each attempt is for operators that refuse the one before.
enum class Contents {
  None,     ///< memory as it comes; integers 0, bools true
  Plain,    ///< floats in [0.5, 1), integers 0, bools true
  Definite, ///< as Plain, square matrices symmetric and positive definite
  Ones,     ///< as Plain, integers 1
};

/// A tensor of the type (all sizes known) on its device, `graphDevice` when it names none. Wrapped numbers
/// are 0.75 whatever the contents. Throws a user error for a lazily conjugated or negated type.
at::Tensor synthetic(const ir::Type &type, const ir::Device &graphDevice, Contents contents);

} // namespace graphopt::capture
