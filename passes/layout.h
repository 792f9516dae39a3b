// How a tensor lies in memory, as far as copying it is concerned.
#pragma once
#include "ir/dim.h"
#include "ir/type.h"

#include <vector>

namespace graphopt::passes {

enum class Layout {
  Dense,   ///< some order of the dims is contiguous: aten.clone keeps the strides
  Gapped,  ///< no two elements share memory, but there are holes between them: a slice, say
  Unknown, ///< elements share memory (expand), or the strides are symbolic and nothing can be shown
};

/// The layout of a tensor type. `syms` gives the ranges of symbolic sizes.
Layout layoutOf(const ir::Type &type, const std::vector<ir::Sym> &syms);

} // namespace graphopt::passes
