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

/// Whose generators the op may draw from: LibTorch's draw from that of their results, others from any.
std::vector<ir::Device> devicesOfDraws(const ir::Graph &graph, const ir::Op &op);
/// Of a generator's state: u8 on the CPU.
ir::Type rngStateType(const ir::Graph &graph, const ir::Device &device);

/// The state that the device's generator is in before `draw`.
ir::Value *insertRngState(ir::Graph &graph, ir::Op *draw, const std::string &name, const ir::Device &device);

/// To the body of a redraw or vjp, before all that draws: the generator is put into the state.
/// `draw` tells under which ambient state.
void appendSetRngState(ir::Graph &graph, ir::Block &body, ir::Value *state, const ir::Device &device,
                       const ir::Op &draw);

/// To the end of `graph`: a redraw of the op, which is of a graph with the same states. `map` has what it
/// reads, and gets its results.
void appendRedraw(ir::Graph &graph, const ir::Op &draw, ir::Value *state, ir::ValueMap &map);

/// To the end of `graph`: memory like the result of `op`, which is of a graph with the same states.
ir::Value *appendEmpty(ir::Graph &graph, const ir::Op &op);

} // namespace graphopt::passes
