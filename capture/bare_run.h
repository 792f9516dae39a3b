// Operators run without their kernels: results of the right sizes, strides and dtypes, with contents that
// mean nothing.
#pragma once
#include "capture/operator_facts.h"

#include <ATen/core/stack.h>

namespace graphopt::capture {

/// Takes the operator's arguments off the stack and puts results there; integers are zero, so that an
/// operator that does run finds no wild index. Nothing is computed: an argument that the operator writes
/// keeps its contents, a result is made as LibTorch's shape functions say (bare_rules.h for those that have
/// none in C++). False, with the stack as it was, when that cannot be: views, which cost nothing to run,
/// results that depend on data, operators without a shape function.
bool runBare(const c10::OperatorHandle &op, const OperatorFacts &facts, torch::jit::Stack &stack);

} // namespace graphopt::capture
