// One input a use, for tensors that gradients reach from several sides.
#pragma once
#include "passes/graph_parts.h"

namespace graphopt::passes {

/// Whether gradients from elsewhere reach a tensor before those of the part.
enum class Gradients { ComeFirst, MayComeFirst };

/// Autograd's engine adds the gradients that reach a tensor one by one: with one input for each use of
/// `input`, which requires gradients, it does so with a part's. The last operator that uses it comes first,
/// and the operands of one in their order: so the engine hands out a node's gradients. `input` goes when
/// nothing else uses it.
///
/// Where gradients of others come first and an operator may take the tensor several times inside, sums would
/// be others even so: throws a user error. Where they merely may, such a tensor, and one of many uses (a
/// recurrent loop's weights, whose gradients would all have to be kept), stays as it is.
void giveOwnUses(GraphPart &part, ir::Value *input, Gradients others, ir::PieceSource &pieces,
                 const ir::OpCatalog *catalog);

} // namespace graphopt::passes
