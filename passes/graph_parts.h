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
  bool isViews = false; ///< it has views alone, to be run through autograd as they are
  ir::Graph graph;      ///< inputs have the names that the values have in the whole graph, but for `uses`
  std::vector<Output> outputs;             ///< one a returned value
  std::map<std::string, std::string> uses; ///< inputs that stand for one use of a value: by input, the value
};

/// What is known of a result.
struct ResultFacts {
  bool requiresGrad = false;    ///< as far as known
  bool isOutsideMemory = false; ///< it shows memory that was there before
  bool sharesMemory = false;    ///< with another result
};

/// Cuts after each result with gradients that another such result is computed from: who asks for gradients of
/// the first, or puts a hook on it, has to be on the second one's way. Views that show memory of others are
/// parts of their own. Parts are consecutive stretches, since autograd's engine runs the last operator first.
///
/// The engine adds the gradients that reach a tensor one by one. So where gradients of others come before
/// those of a part (of later parts, of the caller), each use in that part is an input of its own, the last
/// use first, as the engine hands out a node's gradients. Throws a user error where even then sums would be
/// others, and where a part writes in place what an earlier one reads.
std::vector<GraphPart> partsOf(const ir::Graph &functional, const std::vector<ResultFacts> &results,
                               ir::PieceSource &pieces, const ir::OpCatalog *catalog);

} // namespace graphopt::passes
