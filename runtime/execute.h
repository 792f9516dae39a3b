// Builds plans from graphs and runs them with cached operator handles.
#pragma once
#include "ir/graph.h"
#include "runtime/plan.h"
#include "runtime/to_ivalue.h"

#include <ATen/core/Tensor.h>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace graphopt::runtime {

/// The plan of a captured graph in functional form (or of a later stage): one call a step, bodies of updates
/// and groups inlined, values released after their last use, write-backs and then returned views last.
/// Constants and host values given inline come with the plan; those in files are inputs. Throws a user error
/// for the raw form, borders, opaque attributes, and operators that the dispatcher does not have. Attributes
/// may depend on the graph's syms, whose values each run then brings.
Plan buildPlan(const ir::Graph &graph);

/// Told of each gradient that autograd gives inside a run and that later steps count on to lie in a certain
/// way, or to stay away: `expected` are the strides, nothing for one to stay away. True: it is laid out so.
/// False: later steps get it as it comes, which they may refuse; their results are the caller's risk.
using GradientWatch = std::function<bool(int64_t number, size_t result, const at::Tensor &gradient,
                                         const std::optional<std::vector<int64_t>> &expected)>;

/// A plan made ready: handles looked up, arguments boxed once. Immutable; run() may be called from many
/// threads.
class Executor {
public:
  /// Throws a user error when a step does not fit its operator's schema.
  explicit Executor(Plan plan);
  ~Executor();
  Executor(Executor &&) noexcept;
  Executor &operator=(Executor &&) noexcept;
  const Plan &plan() const;
  /// `inputs` in the order of plan().inputs, `syms` a value for each of plan().syms. Returns the outputs in
  /// order. Errors of operators pass through; values are then freed and
  /// nothing was committed. A gradient that lies otherwise than later steps count on is laid out anew, and
  /// one that stays away is zeros to them.
  std::vector<at::Tensor> run(const std::vector<at::Tensor> &inputs, const SymValues &syms = {},
                              const GradientWatch &watch = {}) const;

private:
  struct Prepared;
  std::unique_ptr<const Prepared> prepared_;
};

} // namespace graphopt::runtime
