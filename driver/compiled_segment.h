// A segment with gradients, compiled: its forward as one plan below autograd, its backward as another, behind
// one autograd node.
#pragma once
#include "capture/frame.h"
#include "driver/lowering.h"
#include "passes/partition.h"
#include "runtime/execute.h"

#include <memory>
#include <string>
#include <vector>

namespace graphopt::driver {

class CompiledSegment {
public:
  /// Compiles the rows of `run` for the results that are wanted in it. Throws a user error that says what is
  /// in the way: then the rows run one by one, through autograd's own nodes.
  CompiledSegment(const capture::SegmentRun &run, Lowering &lowering);

  /// As the rows would have run; results that require gradients have the node as their history.
  void run(const capture::SegmentRun &run) const;

  const passes::Partitioned &parts() const { return parts_; }

private:
  struct Output {
    capture::ValueId value = 0;
    bool isDifferentiable = false;
  };
  std::vector<at::Tensor> inputsOf(const capture::SegmentRun &run) const;

  std::vector<capture::ValueId> liveIns_; ///< in order of the graph's declarations
  std::vector<std::string> names_;        ///< of the live-ins
  std::vector<size_t> withGradient_;      ///< positions among them that get one
  std::vector<Output> outputs_;
  passes::Partitioned parts_;
  std::shared_ptr<const runtime::Executor> forward_, backward_; ///< nodes hold the second
  std::vector<size_t> forwardInputs_; ///< positions among the live-ins, one an input of the plan
  struct BackwardInput {
    enum class Kind { Residual, LiveIn, Cotangent } kind = Kind::Residual;
    size_t index = 0;             ///< among residuals, live-ins, or outputs
    std::vector<int64_t> strides; ///< of a cotangent
  };
  std::vector<BackwardInput> backwardInputs_;
};

/// Why a run cannot be compiled, whatever the compiler can do; empty when it may.
std::string reasonNotToCompile(const capture::SegmentRun &run);
/// Whether some wanted result requires gradients.
bool wantsGradients(const capture::SegmentRun &run);

} // namespace graphopt::driver
