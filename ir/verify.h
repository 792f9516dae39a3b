// The verifier: every invariant of the IR, in prose in verify.cpp's head, each with a case in
// test/ir/invalid.gir.
#pragma once
#include "ir/diag.h"
#include "ir/graph.h"
#include "ir/op_catalog.h"

namespace graphopt::ir {

/// Checks structure, types, effects and the legality table of the graph's stage (stages.def). With a catalog
/// the operators' schemas are checked as well. Adds an error for each violation; true when there was none. A
/// graph with broken structure (uses before definitions, say) gets no further checks.
bool verify(const Graph &graph, Diagnostics &diagnostics, const OpCatalog *catalog = nullptr);

/// verify() for graphs made in memory: throws an internal Error with the text of the graph and its
/// violations.
void verifyOrThrow(const Graph &graph, const OpCatalog *catalog = nullptr);

} // namespace graphopt::ir
