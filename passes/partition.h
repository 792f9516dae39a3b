// A joint graph cut in two: a forward that also returns what the backward needs, and the backward.
#pragma once
#include "ir/graph.h"
#include "ir/op_catalog.h"

#include <string>
#include <vector>

namespace graphopt::passes {

struct PartitionOptions {
  bool recompute = true; ///< else every value that the backward reads is kept
};

/// A value that lives from the forward to the backward.
struct Residual {
  std::string name; ///< in both graphs
  ir::Type type;
  int64_t bytes = 0;       ///< 0 where sizes are not known
  std::string scope;       ///< module path of the operator that made it; empty for declared values
  std::string source;      ///< that operator; "param", "input" ... for declared ones
  bool isDeclared = false; ///< held by somebody anyway: the forward does not return it
};

struct Partitioned {
  ir::Graph forward;         ///< returns the joint graph's outputs, then the residuals that are not declared
  ir::Graph backward;        ///< inputs are the residuals, by name, and the cotangents; returns the gradients
  std::vector<bool> outputs; ///< one of the program's outputs: whether it requires gradients
  std::vector<Residual> residuals; ///< in the order in which the forward returns them; declared ones last
  int64_t bytes = 0;               ///< of those that are not declared
  size_t recomputed = 0;           ///< operators that run again in the backward
};

/// Cuts where the fewest bytes cross, operators that are cheap to run again counting for nothing. Gradients
/// keep their bits. `joint`: a lowered graph made with lower{joint=on}; throws a user error for another.
Partitioned partition(const ir::Graph &joint, const ir::OpCatalog *catalog,
                      const PartitionOptions &options = {});

} // namespace graphopt::passes
