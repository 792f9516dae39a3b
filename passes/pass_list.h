// The pass functions, one a row of passes.def. Included by the table and by the pass that defines the
// function.
#pragma once
#include "passes/pass.h"

namespace graphopt::passes {

#define PASS(name, function, needs, yields, options, help)                                                   \
  Changed function(ir::Graph &graph, PassContext &context);
#define HIDDEN PASS
#include "passes/passes.def"
#undef HIDDEN
#undef PASS

} // namespace graphopt::passes
