// What results look like for operators below autograd that LibTorch's C++ library has no shape function for.
#pragma once
#include "capture/operator_facts.h"

#include <ATen/core/stack.h>

#include <optional>
#include <vector>

namespace graphopt::capture {

struct BareResult {
  std::vector<int64_t> sizes, strides;
  at::ScalarType dtype = at::kFloat;
  bool isUndefined = false;
};

/// `arguments` in schema order. Nothing: there is no rule, or it does not fit them.
std::optional<std::vector<BareResult>> resultsByRule(const OperatorFacts &facts,
                                                     const torch::jit::Stack &arguments);

} // namespace graphopt::capture
