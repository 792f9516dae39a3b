// Common subexpression elimination over the graph's body, in program order: the first of equal operators
// stays.
//
// In functional form nothing is written, so equal operators on equal operands give equal values. What two
// tensors that leave the call share is visible to the caller, though: he may write one and must not see it in
// the other. So two results are merged only if at most one of them leaves.
#include "passes/pass_list.h"

#include "ir/alias.h"
#include "ir/compare.h"
#include "ir/effects.h"
#include "passes/regions.h"

#include <unordered_map>
#include <unordered_set>

namespace graphopt::passes {
namespace {

class Merger {
public:
  Merger(ir::Graph &graph, const ir::OpCatalog *catalog) : graph_(graph), catalog_(catalog), aliases_(graph) {
    if (const ir::Op *last = graph.returnOp())
      last->forEachValue([&](const ir::Operand &operand) { leaves(operand.value); });
  }

  int64_t run() {
    for (ir::Op *op : graph_.body().ops()) {
      if (op->kind != ir::Op::Kind::Call || !ir::isMergeable(*op, catalog_))
        continue;
      std::vector<ir::Op *> &bucket = seen_[ir::hashOf(*op)];
      if (ir::Op *earlier = findEqual(bucket, *op))
        merge(op, earlier);
      else
        bucket.push_back(op);
    }
    return merged_;
  }

  int64_t kept() const { return kept_; }

private:
  void leaves(const ir::Value *value) {
    returned_.insert(value);
    leaving_.insert(aliases_.base(value));
  }

  /// Two views of one tensor share memory anyway, but are two tensor objects; others must not come to share
  /// memory.
  bool mayMerge(const ir::Value *a, const ir::Value *b) const {
    if (aliases_.base(a) != a)
      return !returned_.contains(a) || !returned_.contains(b);
    return !leaving_.contains(a) || !leaving_.contains(b);
  }

  ir::Op *findEqual(const std::vector<ir::Op *> &bucket, const ir::Op &op) {
    for (ir::Op *earlier : bucket) {
      if (!ir::sameComputation(graph_, *earlier, op))
        continue;
      bool may = true;
      for (size_t i = 0; i < op.results().size(); ++i)
        may &= mayMerge(earlier->result(i), op.result(i));
      if (may)
        return earlier;
      ++kept_;
    }
    return nullptr;
  }

  void merge(ir::Op *op, ir::Op *earlier) {
    for (size_t i = 0; i < op->results().size(); ++i) {
      const ir::Value *gone = op->result(i);
      if (returned_.contains(gone))
        returned_.insert(earlier->result(i));
      if (leaving_.contains(gone))
        leaving_.insert(earlier->result(i));
      graph_.replaceAllUses(op->result(i), earlier->result(i));
    }
    graph_.erase(op);
    ++merged_;
  }

  ir::Graph &graph_;
  const ir::OpCatalog *catalog_;
  const ir::AliasInfo aliases_;
  std::unordered_set<const ir::Value *>
      returned_; // leave as tensor objects; membership only, order is never used
  std::unordered_set<const ir::Value *> leaving_; // bases whose memory leaves
  std::unordered_map<uint64_t, std::vector<ir::Op *>> seen_;
  int64_t merged_ = 0, kept_ = 0;
};

} // namespace

Changed cse(ir::Graph &graph, PassContext &context) {
  Merger merger(graph, context.catalog);
  const int64_t merged = merger.run();
  if (merged > 0)
    tidyCaptures(graph); // a region may have captured both of a pair
  context.statistics["operators merged"] += merged;
  context.statistics["operators kept apart because both leave"] += merger.kept();
  return Changed(merged > 0);
}

} // namespace graphopt::passes
