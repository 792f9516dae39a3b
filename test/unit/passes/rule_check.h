// One operator against its decomposition: the operator runs as it is, in f32 (or what its operands say) and
// in f64; the prims that a rule makes of it run through the interpreter.
#pragma once
#include "passes/core_rules.h"

#include <string>

namespace graphopt::passes {

/// Operands by type, "f32[2, 3] | i64[4] < 7 | f64[] wrapped", named %a, %b ... in order; `< n`: integers in
/// [0, n). Floats lie in [lo, hi).
struct RuleCase {
  const char *operands;
  const char *call; // "aten.add.Tensor(%a, %b) {alpha=2}"
  double lo = -2, hi = 2;
};

/// The operator's name in a call's text.
std::string operatorOf(const RuleCase &c);

/// Empty when the rule's prims give the operator's results: dtype, sizes, strides, and numbers no further
/// from f64 than 1.25 times the operator's own error and 2 ulp. Else what is wrong.
std::string checkRule(const CoreRule &rule, const RuleCase &c);

} // namespace graphopt::passes
