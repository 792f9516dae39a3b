// Backward pieces of products: prod over all elements and over one dim, cumprod.
#pragma once
#include "ir/pieces.h"

#include <optional>

namespace graphopt::passes {

/// As handBackward (passes/hand_pieces.h), which asks here.
std::optional<ir::Graph> productBackward(const ir::Graph &unit, size_t result,
                                         const ir::GradientTypes &cotangents, const ir::GradientTypes &soFar);

} // namespace graphopt::passes
