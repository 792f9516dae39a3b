// The result type of a prim from its operands and attributes; the verifier re-runs it and compares.
#pragma once
#include "ir/graph.h"
#include "ir/op_table.h"

#include <string>
#include <variant>
#include <vector>

namespace graphopt::ir {

/// The types of the results of a prim call, or the reason why its operands or attributes are wrong ("operand
/// #1 is f32[4], expected f32[8] to match operand #0").
///
/// Sizes that must agree have to be provably equal within the ranges of `syms`. Types come without strides: a
/// prim computes by logical index, and the layout of its result is for whoever makes the op to choose. The
/// device is that of the first value, or the graph's.
std::variant<std::vector<Type>, std::string> inferTypes(const PrimRow &row, const Op &op,
                                                        const std::vector<Sym> &syms);

/// Whether a dtype is in the class; and the class in words, for messages ("a floating or complex dtype").
bool accepts(Accepts accepted, DType dtype);
std::string_view toString(Accepts accepted);

} // namespace graphopt::ir
