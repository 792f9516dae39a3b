// Operators of one graph copied into another.
#pragma once
#include "ir/graph.h"

#include <unordered_map>

namespace graphopt::ir {

/// Values of the source and what stands for them in the target.
using ValueMap = std::unordered_map<const Value *, Value *>;

/// Copies `op`, bodies included, to the end of `block`, or before `before` when given. Every value it reads
/// is in `map`; its results are added. Names are made fresh, states are left at 0.
Op *copyOp(Graph &to, Block &block, Op *before, const Op &op, ValueMap &map);

/// The same to the end of `block`, for graphs that share a table of states.
Op *copyOpWithStates(Graph &to, Block &block, const Op &op, ValueMap &map);

/// The operands with their values exchanged by `map`; marks stay.
std::vector<Operand> mapped(std::vector<Operand> operands, const ValueMap &map);

} // namespace graphopt::ir
