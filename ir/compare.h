// Structural equality and hash: two graphs are equal when they differ in value names and locations only.
#pragma once
#include "ir/graph.h"

#include <string>

namespace graphopt::ir {

struct CompareOptions {
  bool names = false; ///< value names must agree too
  bool states = true; ///< scopes and ambient state must agree
};
/// Empty when equal, else the first difference in words ("op 4: aten.relu against aten.gelu").
std::string difference(const Graph &a, const Graph &b, const CompareOptions &options = {});
/// Equal graphs (names ignored) have equal hashes, run to run and machine to machine.
uint64_t structuralHash(const Graph &graph);
/// A hash of one op's name, attributes and operand identities within its graph; equal ops compute the same
/// value.
uint64_t hashOf(const Op &op);
/// Both ops of `graph`: same kind, name, attributes, operands and marks, result types and ambient state
/// (scope ignored). Ops with bodies are never the same.
bool sameComputation(const Graph &graph, const Op &a, const Op &b);

} // namespace graphopt::ir
