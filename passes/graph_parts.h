// A functional graph cut where its results depend on one another: stretches that one autograd node each can
// stand for.
#pragma once
#include "passes/unit.h"

#include "ir/op_catalog.h"
#include "ir/pieces.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace graphopt::passes {

struct GraphPart {
  struct Output {
    std::string name;               ///< in the whole graph
    std::optional<size_t> position; ///< among its results; nothing: later parts alone read it
  };
  ir::Graph graph; ///< inputs have the names that the values have in the whole graph, but for `uses`
  std::vector<Output> outputs;             ///< one a returned value
  std::map<std::string, std::string> uses; ///< inputs that stand for one use of a value: by input, the value
};

/// Cuts after each result with gradients that another such result is computed from: who asks for gradients of
/// the first, or puts a hook on it, has to be on the second one's way. Parts are consecutive stretches, since
/// autograd's engine runs the last operator first. `requiresGrad`: one a result, as far as known.
///
/// The engine adds the gradients that reach a tensor one by one. So where gradients of others come before
/// those of a part (of later parts, of the caller), each use in that part is an input of its own, the last
/// use first, as the engine hands out a node's gradients. Throws a user error where even then sums would be
/// others, and where a part writes in place what an earlier one reads.
std::vector<GraphPart> partsOf(const ir::Graph &functional, const std::vector<bool> &requiresGrad,
                               ir::PieceSource &pieces, const ir::OpCatalog *catalog);

} // namespace graphopt::passes
