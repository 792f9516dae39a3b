// A segment under autocast: the casts of its weights enter its plans from outside, as live-ins do.
//
// Eager shares the cast of a weight among all that runs in a region, in this segment and beside it, and its
// one node takes their gradients back. So the plans get the cast itself, fetched as its row came
// (capture/kept_casts.h), and their gradients go to its node. Each use is an input of its own: the engine
// then adds their gradients one by one, the last use first, as it adds those of eager's nodes.
#pragma once
#include "capture/frame.h"
#include "passes/cast_uses.h"

#include <string>
#include <vector>

namespace graphopt::driver {

class SegmentCasts {
public:
  SegmentCasts() = default;
  /// Gives operators of the segment's graph, in raw form and one a row, casts in place of the weights that
  /// they take cast. The casts are declared after the live-ins. Throws a user error that says what is in the
  /// way of that.
  SegmentCasts(ir::Graph &graph, const capture::Segment &segment, ir::PieceSource &pieces);

  size_t size() const { return inputs_.size(); }
  /// In order of declaration.
  const at::Tensor &at(const capture::SegmentRun &run, size_t input) const {
    return run.casts[inputs_[input].taken].cast;
  }
  /// Why the casts that a run took are not those that the graph was made for; empty when they are.
  std::string reasonAgainst(const capture::SegmentRun &run) const;

private:
  struct Input {
    size_t taken = 0; ///< place among the casts that a run takes
    size_t row = 0;
    capture::ValueId weight = 0;
    ir::DType dtype = ir::DType::Undefined;
    bool isBesideWeight = false; ///< the weight is used as it is, too
  };
  friend class CastFinder;
  std::vector<Input> inputs_;
  std::vector<capture::ValueId> noWeights_; ///< cast at each use, since autocast keeps no cast of them
};

} // namespace graphopt::driver
