// Values on the dispatcher's stack to literals of the text.
#pragma once
#include "ir/attr.h"
#include "ir/type.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

namespace graphopt::capture {

/// The literal of a value that a schema calls `type`: dtypes, layouts, memory formats and devices become
/// words, lists are copied, generators and objects become opaque.
ir::Attr toAttr(const c10::IValue &value, const c10::Type &type);
/// The literal of a value by what it is at run time.
ir::Attr toAttr(const c10::IValue &value);
/// The logical contents: nested lists, a bare number for 0-dim. Any device.
ir::Attr contentOf(const at::Tensor &tensor);

ir::Device toDevice(const c10::Device &device);

} // namespace graphopt::capture
