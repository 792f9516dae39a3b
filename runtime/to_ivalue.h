// Literals of the text to values on the dispatcher's stack, and back.
//
// An Attr keeps what was written; the schema decides what it means: `1` is an int, a float or a Scalar, `f32`
// a dtype. The schema's real type is asked, since its plain type calls dtypes, layouts and memory formats all
// `int`.
#pragma once
#include "ir/attr.h"
#include "ir/dim.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <optional>
#include <string_view>
#include <vector>

namespace graphopt::runtime {

using SymValues = std::vector<ir::SymValue>;

/// The value of `attr` as the schema argument wants it. A number given for a sized list (int[2]) is repeated.
/// Throws a user error that names `op` (an IR name) and the argument when the literal does not fit, is
/// opaque, or uses a sym without a value.
c10::IValue toIValue(const ir::Attr &attr, const c10::Argument &argument, std::string_view op,
                     const SymValues &syms = {});

/// The same by type alone; nothing when the literal does not fit. `listSize` is the N of int[N].
std::optional<c10::IValue> convertAttr(const ir::Attr &attr, const c10::Type &type,
                                       const SymValues &syms = {}, std::optional<int32_t> listSize = {});

/// The literal that reads back to `value`; opaque for what has no text (generators, objects, streams).
ir::Attr toAttr(const c10::IValue &value, const c10::Type &type);

/// A number with the literal's own kind (int, float, bool, complex); nothing for other literals.
std::optional<c10::Scalar> toScalar(const ir::Attr &attr, const SymValues &syms = {});
/// The literal of a number, of its own kind.
ir::Attr toAttr(const c10::Scalar &scalar);

/// A type as schemas print it: "Tensor", "int[2]", "ScalarType?".
std::string schemaTypeText(const c10::Argument &argument);

/// True for ScalarType and ScalarType?: the arguments whose words name dtypes.
bool isDTypeArgument(const c10::Argument &argument);

} // namespace graphopt::runtime
