// Dtype promotion and broadcasting as ATen does both, made explicit: prims do neither.
#pragma once
#include "ir/type.h"

#include <optional>
#include <vector>

namespace graphopt::passes {

/// The dtype that operands of two dtypes meet in; nothing for pairs that ATen refuses or that are no ordinary
/// numbers.
std::optional<ir::DType> promoteTypes(ir::DType a, ir::DType b);

/// The dtype that an elementwise operator computes in, from its tensor operands: tensors with dims decide,
/// then 0-dim tensors, then wrapped numbers; a lower group only matters when it is of a higher kind
/// (at::result_type). The default dtype is taken to be f32. Nothing when there is none.
std::optional<ir::DType> commonDType(const std::vector<const ir::Type *> &operands);

/// The size that operands of these sizes are stretched to: from the last dim on, dims of size 1 and missing
/// dims give way. Nothing when two sizes cannot be shown to fit.
std::optional<std::vector<ir::Dim>> broadcastSizes(const std::vector<std::vector<ir::Dim>> &sizes,
                                                   const std::vector<ir::Sym> &syms);

} // namespace graphopt::passes
