// The result type of a prim from its operands and attributes; the verifier re-runs it and compares.
#pragma once
#include "ir/graph.h"
#include "ir/op_table.h"

#include <string>
#include <variant>
#include <vector>

namespace graphopt::ir {

/// The types of the results of a prim call, or the reason why its operands or attributes are wrong ("operand #1 is f32[4], expected
/// f32[8] to match operand #0").
std::variant<std::vector<Type>, std::string> inferTypes(const PrimRow &row, const Op &op);

} // namespace graphopt::ir
