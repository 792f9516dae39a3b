// Reads .gir text: LL(1), no type inference. Grammar: docs/ir.md.
#pragma once
#include "ir/diag.h"
#include "ir/graph.h"

#include <optional>
#include <string>
#include <vector>

namespace graphopt::ir {

/// All graphs of a text. On an error the diagnostics say where and what, and the result is nothing.
/// Any byte sequence is safe to pass.
std::optional<std::vector<Graph>> parseGraphs(Diagnostics &diagnostics);

/// One graph from a text that is known to be good (tests, tables); throws a user error otherwise.
Graph parseGraph(std::string_view text);

/// A dim over these syms ("2*B*T + -1"); throws a user error for other texts.
Dim parseDim(std::string_view text, const std::vector<std::string> &syms);

} // namespace graphopt::ir
