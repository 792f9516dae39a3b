// What one autograd node stands for: a functional graph compiled to a forward plan that runs below autograd
// and a backward plan.
#pragma once
#include "driver/last_backward.h"
#include "driver/segment_node.h"
#include "ir/graph.h"
#include "passes/manager.h"
#include "passes/partition.h"
#include "runtime/execute.h"

#include <graphopt/options.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace graphopt::driver {

/// How plans are made, as CompileOptions says.
struct PlanChoices {
  bool recompute = false;
  Layout layout = Layout::asIs;
};

/// What backwards of a segment's parts are compiled for.
struct BackwardPlanning {
  BackwardKey key;
  std::shared_ptr<LastBackward> last;              ///< gets what each backward is
  std::vector<capture::ThreadWord> otherAutocasts; ///< tried beside the key's
  PlanChoices choices = {};
  bool mayRunAgain =
      true; ///< what the part reads is as it was until the backward, as far as the segment goes
};

class CompiledPart {
public:
  /// `functional`: captured, in functional form. `outputs`: numbers of the returned values, by which
  /// LastBackward knows them. Throws a user error that says what is in the way.
  CompiledPart(const ir::Graph &functional, std::string name, const std::vector<uint32_t> &outputs,
               c10::Device device, const BackwardPlanning &planning, const passes::ManagerOptions &options);

  /// Of run(): constants come with the plans.
  const std::vector<std::string> &inputs() const { return names_; }
  bool isDifferentiable(size_t output) const { return outputs_[output].isDifferentiable; }
  /// Whether the operators' results have the sizes and strides that capturing saw, for these values of syms.
  bool holdsFor(const std::vector<ir::SymValue> &syms) const;
  /// Operators that were not taken apart, and why, with counts.
  const std::map<std::string, uint64_t> &opaque() const { return opaque_; }

  struct Run {
    std::vector<at::Tensor> inputs;
    std::vector<ir::SymValue> syms;
    std::shared_ptr<SegmentNodeBackward> node = {};
    std::vector<at::Tensor> made = {}; ///< outputs, then residuals
  };
  /// Outputs that require gradients have the node as their history.
  void run(Run &run) const;
  /// Keeps what the backward needs. `shown`: the outputs as the program has them.
  void save(const Run &run, const std::vector<at::Tensor> &shown) const;

private:
  struct Output {
    uint32_t number = 0;
    bool isDifferentiable = false;
    CotangentForm form;
    std::vector<ir::Dim> strides; ///< of the value itself
  };
  struct BackwardInput {
    enum class Kind { Residual, Input, Cotangent } kind = Kind::Residual;
    size_t index = 0;                  ///< among residuals, inputs, or differentiable outputs
    std::vector<ir::Dim> strides = {}; ///< of a cotangent
  };
  ir::Graph lowered(const ir::Graph &functional, capture::ThreadWord autocast,
                    const passes::ManagerOptions &options,
                    std::vector<passes::PassReport> *reports = nullptr) const;
  ir::Attr cotangentForms(const ir::Graph &functional) const;
  bool isSomeUndefined() const;
  void expectAnyCotangents(const ir::Graph &functional);
  std::vector<bool> reachedInputs(const ir::Graph &joint) const;
  void noteOutputs(const ir::Graph &functional);
  void noteTypes(const ir::Graph &functional, const ir::Graph &joint);
  void noteOpaque(const std::vector<passes::PassReport> &reports);
  void noteInputs(const ir::Graph &joint);
  void mapBackwardInputs();
  std::shared_ptr<SegmentNodeBackward> makeNode(const Run &run) const;
  SegmentNodeBackward::Backward planFor(const std::vector<ir::SymValue> &syms) const;
  ir::Attr gradientForms() const;
  SegmentNodeBackward::Backward againFor(const std::vector<ir::SymValue> &syms) const;
  std::function<bool(const std::vector<at::Tensor> &)> fitsFor(const std::vector<ir::SymValue> &syms) const;

  const std::string name_;
  const BackwardKey key_;
  const std::shared_ptr<LastBackward> last_;
  std::vector<capture::ThreadWord> autocasts_; ///< under which the backward plan holds
  const uint32_t number_;                      ///< among the segment's parts
  std::map<InnerGradient, CotangentForm>
      gradients_;        ///< that autograd gives inside, and that are not contiguous
  bool mayMiss_ = false; ///< the plan counts on how those come
  std::map<std::string, uint64_t> opaque_;
  std::vector<std::string> names_;   ///< of the inputs
  std::vector<size_t> withGradient_; ///< positions among them that get one
  std::vector<bool> isReached_;      ///< of those: whether some output's gradient gets there
  std::vector<Output> outputs_;
  passes::Partitioned partitioned_;
  std::shared_ptr<const runtime::Executor> forward_, backward_; ///< nodes hold the second
  std::vector<size_t> forwardInputs_;                           ///< positions among the inputs
  std::vector<BackwardInput> backwardInputs_;
  std::vector<size_t> savedInputs_;                   ///< those that the backward plan reads
  std::vector<std::pair<ir::Dim, ir::Dim>> sameDims_; ///< as captured, and as lowered: other expressions
  std::vector<c10::Device> drawsOn_;                  ///< devices whose generators it draws from
  std::shared_ptr<const ir::Graph> surface_;          ///< as captured, for running it again; null: it writes
};

} // namespace graphopt::driver
