// How a functional graph ends: what is copied before the write-backs, and which returned values are made
// again on the real tensors after them.
#pragma once
#include "ir/alias.h"
#include "ir/graph.h"

#include <map>
#include <set>
#include <vector>

namespace graphopt::runtime {

/// A returned value that is a view: the chain of views from `base`, to be made on the tensor of `root`.
struct ReturnedView {
  const ir::Value *base = nullptr;
  const ir::Value *root =
      nullptr; ///< the base itself, or the declared value that the base is written back to
  std::vector<ir::ViewStep> chain; ///< may be empty: the root itself is returned
};

/// Orders values by their place in the graph, so that what is done for each is done in the same order on
/// every run.
struct ByName {
  bool operator()(const ir::Value *a, const ir::Value *b) const { return a->name < b->name; }
};

struct Returns {
  /// By position among the return's operands; those marked & only.
  std::map<size_t, ReturnedView> views;
  /// Sources of write-backs that share memory with a declared value: an earlier commit could change them.
  std::set<const ir::Value *, ByName> copyFirst;
  /// Every value the views need, beside the operands of the return.
  std::vector<const ir::Value *> needed;
};

/// Needs a graph in functional form with a return.
Returns planReturns(const ir::Graph &graph);

} // namespace graphopt::runtime
