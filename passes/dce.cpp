// Dead code elimination: one walk backwards, so that a removed operator frees the ones it read.
//
// What may go is asked of ir/effects.h alone: writes, draws, host reads and ordered operators stay, and so do
// unused declarations, which are the caller's signature.
#include "passes/pass_list.h"

#include "ir/effects.h"
#include "passes/regions.h"

#include <algorithm>

namespace graphopt::passes {
namespace {

bool isUnused(const ir::Op &op) {
  const auto &results = op.results();
  return std::none_of(results.begin(), results.end(),
                      [](const ir::Value *value) { return value->hasUses(); });
}

bool isDead(const ir::Op &op, const ir::OpCatalog *catalog) {
  if (!op.computes())
    return false; // borders, write-backs and terminators are what the graph is for
  return isUnused(op) && ir::isRemovable(op, catalog);
}

int64_t removeDead(ir::Graph &graph, ir::Block &block, const ir::OpCatalog *catalog) {
  int64_t removed = 0;
  std::vector<ir::Op *> ops = block.ops();
  for (auto it = ops.rbegin(); it != ops.rend(); ++it) {
    ir::Op *op = *it;
    if (isDead(*op, catalog)) {
      graph.erase(op);
      ++removed;
    } else if (op->body()) {
      removed += removeDead(graph, *op->body(), catalog);
    }
  }
  return removed;
}

} // namespace

Changed dce(ir::Graph &graph, PassContext &context) {
  const int64_t removed = removeDead(graph, graph.body(), context.catalog);
  if (removed > 0)
    tidyCaptures(graph); // an operator inside a region may have been the only reader of a capture
  context.statistics["operators removed"] += removed;
  return Changed(removed > 0);
}

} // namespace graphopt::passes
