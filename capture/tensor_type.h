// Tensors as the IR's types, and comparisons that need no new type.
#pragma once
#include "ir/type.h"

#include <ATen/core/Tensor.h>

namespace graphopt::capture {

/// The type of a tensor with its device always given. Layouts other than strided have no strides.
ir::Type fullTypeOf(const at::Tensor &tensor);
/// The same type as a graph on `graphDevice` prints it: the device only where it differs.
ir::Type relativeTo(const ir::Device &graphDevice, ir::Type type);

/// Equal sizes, strides, dtype, and conjugate and negative bits.
bool hasGeometry(const ir::Type &type, const at::Tensor &tensor);
/// Everything that fullTypeOf tells, compared without building one. `graphDevice` stands in when `type` has
/// no device.
bool hasType(const ir::Type &type, const at::Tensor &tensor, const ir::Device &graphDevice);

/// Why a value of this layout cannot stand in a graph; empty when it can.
std::string unsupportedLayout(const at::Tensor &tensor);

} // namespace graphopt::capture
