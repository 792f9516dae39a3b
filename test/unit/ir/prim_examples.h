// For each prim a well-formed call, as text, and ill-formed ones with their reasons: what the tests of the
// table walk over.
#pragma once
#include "ir/op_table.h"

#include <string>
#include <utility>
#include <vector>

namespace graphopt::ir {

struct PrimExample {
  std::string call;                                     // "(%a, %b) {dim=0}"
  std::string result;                                   // "f32[4, 8]"
  std::vector<std::pair<std::string, std::string>> bad; // another call, and a part of the message
};

/// The dtype that the examples of a row use: one that its column accepts.
std::string exampleDtype(const PrimRow &row);
PrimExample exampleOf(const PrimRow &row);
/// A graph of stage core around a call; `result` is its type.
std::string graphText(const PrimRow &row, const PrimExample &example, const std::string &call);

} // namespace graphopt::ir
