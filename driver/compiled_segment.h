// A segment with gradients, compiled: its forward as one plan below autograd, its backward as another, behind
// one autograd node.
#pragma once
#include "capture/frame.h"
#include "capture/segment_sizes.h"
#include "driver/lowering.h"
#include "driver/segment_casts.h"
#include "driver/segment_node.h"
#include "passes/manager.h"
#include "passes/partition.h"
#include "runtime/execute.h"

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace graphopt::driver {

/// By result: the version that it is left with.
using ResultVersions = std::map<capture::ValueId, int64_t>;

/// The autocast that backwards of a segment run under.
struct BackwardAutocast {
  capture::ThreadWord expected = 0; ///< ThreadProbe::autocastOf
  /// Gets that of each backward.
  std::shared_ptr<std::atomic<capture::ThreadWord>> seen =
      std::make_shared<std::atomic<capture::ThreadWord>>(0);
};

class CompiledSegment {
public:
  /// Compiles the rows of a recorded segment for the results that are wanted of it. With `others` of its
  /// family, numbers in which they differ become expressions over syms. Throws a user error that says what is
  /// in the way: then the rows run one by one, through autograd's own nodes.
  CompiledSegment(const capture::Segment &segment, const std::vector<const capture::Segment *> &others,
                  const std::vector<capture::ValueId> &wanted, const ResultVersions &versions,
                  const BackwardAutocast &autocast, Lowering &lowering);

  /// The syms' values for a segment of the family; nothing when the plans do not hold for it.
  std::optional<std::vector<ir::SymValue>> sizesOf(const capture::Segment &segment) const {
    return sizes_->of(segment);
  }

  /// As the rows would have run; results that require gradients have the node as their history. `syms`: of
  /// sizesOf(); none for the recorded segment itself.
  void run(const capture::SegmentRun &run, const std::vector<ir::SymValue> &syms = {}) const;
  /// Why a run cannot go through the plans; empty when it may.
  std::string reasonAgainst(const capture::SegmentRun &run) const { return casts_.reasonAgainst(run); }

  const passes::Partitioned &parts() const { return parts_; }
  /// Operators that were not taken apart, and why, with counts.
  const std::map<std::string, uint64_t> &opaque() const { return opaque_; }

private:
  struct Output {
    capture::ValueId value = 0;
    bool isDifferentiable = false;
    int64_t version = 0;
  };
  size_t inputCount() const { return liveIns_.size() + casts_.size(); }
  const at::Tensor &inputAt(const capture::SegmentRun &run, size_t position) const;
  std::vector<at::Tensor> inputsOf(const capture::SegmentRun &run) const;
  std::vector<at::Tensor> runForward(const capture::SegmentRun &run,
                                     const std::vector<ir::SymValue> &syms) const;
  ir::Graph functionalOf(const capture::Segment &segment, const std::vector<const capture::Segment *> &others,
                         const std::vector<capture::ValueId> &wanted, const passes::ManagerOptions &options);
  void noteEffects(const capture::Segment &segment, const ir::Graph &functional);
  void makePlans(const ir::Graph &joint);
  void mapInputs(const ir::Graph &joint);
  std::shared_ptr<SegmentNodeBackward> makeNode(const capture::SegmentRun &run,
                                                const std::vector<ir::SymValue> &syms) const;
  void save(SegmentNodeBackward &node, const capture::SegmentRun &run, const std::vector<at::Tensor> &made,
            const std::vector<at::Tensor> &taken) const;

  ir::Graph lowered(const ir::Graph &functional, capture::ThreadWord autocast,
                    const passes::ManagerOptions &options,
                    std::vector<passes::PassReport> *reports = nullptr) const;
  void noteOpaque(const std::vector<passes::PassReport> &reports);

  std::string name_;
  std::map<std::string, uint64_t> opaque_;
  BackwardAutocast autocast_;
  std::vector<capture::ThreadWord> autocasts_; ///< under which the backward plan holds
  std::optional<capture::SegmentSizes> sizes_;
  std::vector<capture::ValueId> liveIns_; ///< in order of the graph's declarations
  SegmentCasts casts_;                    ///< declared after the live-ins: inputs like them
  std::vector<std::string> names_;        ///< of the live-ins and casts
  std::vector<size_t> withGradient_;      ///< positions among them that get one
  std::vector<Output> outputs_;
  passes::Partitioned parts_;
  std::shared_ptr<const runtime::Executor> forward_, backward_; ///< nodes hold the second
  std::vector<size_t> forwardInputs_; ///< positions among live-ins and casts, one an input of the plan
  struct BackwardInput {
    enum class Kind { Residual, LiveIn, Cotangent } kind = Kind::Residual;
    size_t index = 0;             ///< among residuals, live-ins, or outputs
    std::vector<ir::Dim> strides; ///< of a cotangent
  };
  std::vector<BackwardInput> backwardInputs_;
  std::vector<size_t> savedLiveIns_; ///< those that the backward plan reads
  struct Written {
    size_t liveIn = 0;
    uint32_t times = 0; ///< by operators whose schemas say so: each raises its version
  };
  std::vector<Written> written_;
  std::vector<c10::Device> drawsOn_; ///< devices whose generators it draws from; empty: it does not draw
  std::shared_ptr<const ir::Graph> surface_; ///< as captured, for running it again; null: it must not
};

/// Why a run cannot go through a plan of its segment; empty when it may.
std::string reasonAgainst(const capture::SegmentRun &run);
/// Whether some wanted result requires gradients.
bool wantsGradients(const capture::SegmentRun &run);

} // namespace graphopt::driver
