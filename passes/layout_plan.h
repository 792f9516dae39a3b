// Which operators of a graph are to run with channels last: decided before anything is changed, for regions
// of operators that hand images to each other.
#pragma once
#include "ir/graph.h"
#include "ir/op_catalog.h"

#include <set>
#include <unordered_set>

namespace graphopt::passes {

/// What earlier attempts showed, by an operator's place in the graph's body.
struct OrderFacts {
  std::set<size_t> refusing; ///< wants its operands as they were recorded
  std::set<size_t> ending;   ///< takes channels last, and gives its results as they were recorded
};

struct LayoutPlan {
  /// Operators of the graph's body that take images with channels last.
  std::unordered_set<const ir::Op *> taking;
  size_t convolutions = 0, convolutionsLeft = 0; ///< in chosen regions, and in others that could be
};

enum class Regions {
  Worthwhile, ///< see planLayout
  All         ///< whatever the conversions cost
};

/// A region is worthwhile when the conversions that it needs move less than half of the bytes that its
/// convolutions take and give: in the usual order a library brings about that many into another order and
/// back. Conversions are those of images at its edges and those of weights, in each run and again for their
/// gradients. Convolutions of one channel a group save nothing, they merely hand the order on; those that
/// were recorded with their channels last have what they need, but for a weight that they convert themselves.
LayoutPlan planLayout(const ir::Graph &graph, const ir::OpCatalog *catalog, const OrderFacts &facts,
                      Regions regions);

/// The values whose order the operator is free to choose among its operands: images, each once.
std::vector<ir::Value *> imagesOf(const ir::Op &op);

} // namespace graphopt::passes
