// Builds plans from graphs and runs them with cached operator handles.
#pragma once
#include "ir/graph.h"
#include "ir/op_catalog.h"
#include "runtime/plan.h"

#include <ATen/core/Tensor.h>
#include <memory>
#include <vector>

namespace graphopt::runtime {

/// The plan of a captured graph in functional form (or of a later stage): one call a step, values released
/// after their last use, write-backs and then returned views last. Throws a user error for opaque attributes
/// and borders.
Plan buildPlan(const ir::Graph &graph, const ir::OpCatalog &catalog);

/// A plan made ready: handles looked up, arguments boxed once. Immutable; run() may be called from many
/// threads.
class Executor {
public:
  explicit Executor(Plan plan);
  ~Executor();
  const Plan &plan() const;
  /// `inputs` in the order of plan().inputs. Returns the outputs in order.
  std::vector<at::Tensor> run(const std::vector<at::Tensor> &inputs) const;

private:
  struct Prepared;
  std::unique_ptr<Prepared> prepared_;
};

} // namespace graphopt::runtime
