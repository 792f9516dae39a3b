// Whether the memory of a tensor has gaps, as far as copying it is concerned.
#pragma once
#include "ir/dim.h"
#include "ir/type.h"

#include <vector>

namespace graphopt::passes {

enum class Density {
  Dense,   ///< some order of the dims is contiguous: aten.clone keeps the strides
  Gapped,  ///< no two elements share memory, but there are holes between them: a slice, say
  Unknown, ///< elements share memory (expand), or the strides are symbolic and nothing can be shown
};

/// The density of a tensor type. `syms` gives the ranges of symbolic sizes.
Density densityOf(const ir::Type &type, const std::vector<ir::Sym> &syms);

} // namespace graphopt::passes
