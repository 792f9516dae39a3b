// Random numbers drawn a second time: the state of the generator is a value that the first draw leaves, and a
// redraw begins with.
#pragma once
#include "ir/op_catalog.h"
#include "ir/splice.h"

#include <string>

namespace graphopt::passes {

/// Whether the op may draw again where its numbers are wanted: a call or update that draws from the default
/// generator and does nothing else, of operators that aten.def gives the recompute class Random.
bool mayRedraw(const ir::Graph &graph, const ir::Op &op, const ir::OpCatalog *catalog);

/// Of the state of the generator that the op draws from: u8 on the CPU.
ir::Type rngStateType(const ir::Graph &graph, const ir::Op &draw);

/// The state that `draw` begins with, as a value made before it.
ir::Value *insertRngState(ir::Graph &graph, ir::Op *draw, const std::string &name);

/// To the body of a redraw or vjp: from here on it draws as `draw`, an op of `graph`, did.
void appendSetRngState(ir::Graph &graph, ir::Block &body, ir::Value *state, const ir::Op &draw);

/// To the end of `graph`: a redraw of the op, which is of a graph with the same states. `map` has what it
/// reads, and gets its results.
void appendRedraw(ir::Graph &graph, const ir::Op &draw, ir::Value *state, ir::ValueMap &map);

/// To the end of `graph`: memory like the result of `op`, which is of a graph with the same states.
ir::Value *appendEmpty(ir::Graph &graph, const ir::Op &op);

} // namespace graphopt::passes
