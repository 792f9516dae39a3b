// Backward pieces written by hand, for operators whose derivative in LibTorch asks the host about the data
// though it need not.
#pragma once
#include "ir/pieces.h"

#include <optional>

namespace graphopt::passes {

/// The backward piece of a unit, eager's bits at every input; nothing when there is no rule for it. `result`:
/// the number of its result among the values of the forward run (ir/pieces.h).
std::optional<ir::Graph> handBackward(const ir::Graph &unit, size_t result,
                                      const ir::GradientTypes &cotangents, const ir::GradientTypes &soFar);

} // namespace graphopt::passes
