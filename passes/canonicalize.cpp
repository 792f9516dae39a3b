#include "passes/pass_list.h"
namespace graphopt::passes {
Changed canonicalize(ir::Graph &, PassContext &) { return Changed::No; }
}
