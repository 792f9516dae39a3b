// A segment with gradients, compiled: stretches of it, one after the other, each a plan with an autograd
// node, or views that run as they are.
#pragma once
#include "capture/frame.h"
#include "capture/segment_sizes.h"
#include "driver/compiled_part.h"
#include "driver/lowering.h"
#include "driver/segment_casts.h"
#include "passes/graph_parts.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace graphopt::driver {

/// By result: the version that it is left with.
using ResultVersions = std::map<capture::ValueId, int64_t>;

class CompiledSegment {
public:
  /// Compiles the rows of a recorded segment for the results that are wanted of it. With `others` of its
  /// family, numbers in which they differ become expressions over syms. Throws a user error that says what is
  /// in the way: then the rows run one by one, through autograd's own nodes.
  CompiledSegment(const capture::Segment &segment, const std::vector<const capture::Segment *> &others,
                  const std::vector<capture::ValueId> &wanted, const ResultVersions &versions,
                  BackwardPlanning planning, Lowering &lowering);

  /// The syms' values for a segment of the family; nothing when the plans do not hold for it.
  std::optional<std::vector<ir::SymValue>> sizesOf(const capture::Segment &segment) const;

  /// As the rows would have run; results that require gradients have the node of their part as their history.
  /// `syms`: of sizesOf(); none for the recorded segment itself.
  void run(const capture::SegmentRun &run, const std::vector<ir::SymValue> &syms = {}) const;
  /// Why a run cannot go through the plans; empty when it may.
  std::string reasonAgainst(const capture::SegmentRun &run) const { return casts_.reasonAgainst(run); }

  /// Operators that were not taken apart, and why, with counts.
  std::map<std::string, uint64_t> opaque() const;

private:
  struct Output {
    capture::ValueId value = 0; ///< 0: later parts alone read it
    int64_t version = 0;
    size_t slot = 0;
    bool isDifferentiable = false;
  };
  struct Written {
    size_t liveIn = 0;
    uint32_t times = 0; ///< by operators whose schemas say so: each raises its version
  };
  struct Part {
    std::shared_ptr<const CompiledPart> compiled;
    std::shared_ptr<const ir::Graph> views; ///< one of the two
    std::vector<std::string> names;         ///< of the inputs
    std::vector<size_t> inputs;             ///< slots
    std::vector<Output> outputs;
    std::vector<Written> written;
  };
  ir::Graph functionalOf(const capture::Segment &segment, const std::vector<const capture::Segment *> &others,
                         const std::vector<capture::ValueId> &wanted, const passes::ManagerOptions &options);
  void addPart(passes::GraphPart &part, const capture::Segment &segment,
               const std::vector<capture::ValueId> &wanted, const ResultVersions &versions,
               const BackwardPlanning &planning, const passes::ManagerOptions &options);
  std::vector<Written> writtenBy(const ir::Graph &functional, const capture::Segment &segment) const;
  size_t slotOf(const std::string &name);
  void takeGradFlags(passes::GraphPart &part) const;
  std::vector<at::Tensor> runPlan(const Part &part, const capture::SegmentRun &run,
                                  const std::vector<ir::SymValue> &syms, std::vector<at::Tensor> inputs,
                                  const std::vector<at::Tensor> &slots) const;
  std::vector<at::Tensor> runViews(const Part &part, const capture::SegmentRun &run,
                                   const std::vector<ir::SymValue> &syms,
                                   const std::vector<at::Tensor> &inputs) const;

  std::optional<capture::SegmentSizes> sizes_;
  std::vector<capture::ValueId> liveIns_; ///< in order of the graph's declarations
  SegmentCasts casts_;                    ///< declared after the live-ins: inputs like them
  /// By name in the graph: live-ins, casts, then what crosses from part to part or is a result.
  std::map<std::string, size_t> slots_;
  std::vector<Part> parts_;
};

/// Why a run cannot go through a plan of its segment; empty when it may.
std::string reasonAgainst(const capture::SegmentRun &run);
/// Whether some wanted result requires gradients.
bool wantsGradients(const capture::SegmentRun &run);

} // namespace graphopt::driver
