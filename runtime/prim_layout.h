// The layout of a prim's result: the one that its type says, whatever the reference operator left.
#pragma once
#include "ir/type.h"
#include "runtime/bind.h"

#include <ATen/core/Tensor.h>

namespace graphopt::runtime {

/// `result`, with the strides of `type` under `syms`: itself when it has them and shares no memory with an
/// operand (`mayAlias`), else a copy. Strides by which elements share memory (an expanded view) are kept if
/// the result has them, since nothing can be copied into such a tensor.
at::Tensor laidOut(const at::Tensor &result, const ir::Type &type, const SymValues &syms, bool mayAlias);

} // namespace graphopt::runtime
