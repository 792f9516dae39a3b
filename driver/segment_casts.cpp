// Which rows take a weight cast follows from their pieces; which casts are kept was seen while recording.
#include "driver/segment_casts.h"

#include "capture/kept_casts.h"

#include <graphopt/error.h>

#include <algorithm>
#include <map>

namespace graphopt::driver {

using capture::Segment;
using capture::SegmentRun;
using capture::ValueId;
using passes::CastUse;

class CastFinder {
public:
  CastFinder(ir::Graph &graph, const Segment &segment, ir::PieceSource &pieces)
      : graph_(graph), segment_(segment), pieces_(pieces), needsGrad_(passes::likelyNeedsGrad(graph)),
        ops_(graph.body().ops()) {
    for (size_t i = 0; i < segment.liveIns.size(); ++i)
      ids_[graph.declarations()[i]] = segment.liveIns[i];
  }

  void find(SegmentCasts &found) {
    for (size_t row = 0; row < segment_.size(); ++row) {
      if (passes::keptDType(graph_, *ops_[row]))
        visit(row, found);
      taken_ += static_cast<size_t>(std::ranges::count_if(segment_.infos[row].weights, isKept));
    }
    checkWeights();
    declare(found);
  }

private:
  /// A use of a kept cast.
  struct Use {
    ir::Op *op = nullptr;
    ir::Value *weight = nullptr;
    ir::Type type;
    SegmentCasts::Input input;
  };

  static bool isKept(const capture::CastWeight &weight) { return weight.isKept; }

  void visit(size_t row, SegmentCasts &found) {
    for (ir::Value *operand : passes::possibleWeights(*ops_[row]))
      if (ids_.contains(operand))
        look(row, operand, found);
  }

  void look(size_t row, ir::Value *operand, SegmentCasts &found) {
    const ValueId id = ids_.at(operand);
    const std::vector<capture::CastWeight> &weights = segment_.infos[row].weights;
    const auto weight = std::ranges::find(weights, id, &capture::CastWeight::value);
    if (weight != weights.end() && !weight->isKept)
      return; // there was no cast of it when the row had run
    const CastUse use = passes::castUseOf(graph_, *ops_[row], operand, needsGrad_, pieces_);
    if (use.kind == CastUse::Kind::None)
      return;
    if (weight == weights.end()) {
      found.noWeights_.push_back(id);
      return;
    }
    if (use.kind == CastUse::Kind::Unclear)
      userError(use.why);
    if (use.times > 1)
      userError(ops_[row]->name + " takes the cast of a weight several times inside: autograd adds their "
                                  "gradients one by one, between those of others");
    Use one{ops_[row], operand, use.type, {}};
    one.type.grad = weight->hasHistory;
    const auto before = std::count_if(weights.begin(), weight, isKept);
    one.input = {taken_ + static_cast<size_t>(before), row, id, use.type.dtype, false};
    uses_.push_back(std::move(one));
  }

  /// Autograd adds what reaches a weight through its casts and past them in the order in which they ran; the
  /// segment's node gives the sum of those past them. With two terms in all there is but one order.
  void checkWeights() {
    for (Use &use : uses_) {
      size_t past = 0;
      for (const ir::Op *user : use.weight->users())
        past += user->computes() && !takesCast(*user, use.weight);
      if (past > 1 && use.type.grad)
        userError("a weight is used cast and, more than once, as it is: autograd adds the gradients in the "
                  "order of the uses");
      use.input.isBesideWeight = past == 1 && use.type.grad;
    }
  }

  bool takesCast(const ir::Op &op, const ir::Value *weight) const {
    return std::ranges::any_of(uses_, [&](const Use &use) { return use.op == &op && use.weight == weight; });
  }

  /// The last use first: in this order the engine hands out the gradients of a node.
  void declare(SegmentCasts &found) {
    std::ranges::reverse(uses_);
    for (const Use &use : uses_) {
      ir::Value *cast =
          graph_.declare(ir::Value::Kind::Outside, graph_.freshName(use.weight->name + ".cast"), use.type);
      use.op->replaceUses(use.weight, cast);
      found.inputs_.push_back(use.input);
    }
  }

  ir::Graph &graph_;
  const Segment &segment_;
  ir::PieceSource &pieces_;
  const passes::NeedsGrad needsGrad_;
  const std::vector<ir::Op *> ops_;          // one a row, and the return
  std::map<const ir::Value *, ValueId> ids_; // of the live-ins
  std::vector<Use> uses_;
  size_t taken_ = 0; // casts that the rows before take
};

SegmentCasts::SegmentCasts(ir::Graph &graph, const Segment &segment, ir::PieceSource &pieces) {
  CastFinder(graph, segment, pieces).find(*this);
}

std::string SegmentCasts::reasonAgainst(const SegmentRun &run) const {
  for (ValueId id : noWeights_)
    if (capture::isCastKept(run.tensors[id]))
      return "autocast keeps the cast of a tensor of which it kept none in the recorded call";
  std::map<ValueId, const c10::TensorImpl *> besideWeight;
  for (const Input &input : inputs_) {
    const bool isThere = input.taken < run.casts.size() && run.casts[input.taken].row == input.row &&
                         run.casts[input.taken].value == input.weight;
    if (!isThere || !run.casts[input.taken].cast.defined())
      return "autocast keeps no cast of a tensor of which it kept one in the recorded call";
    const at::Tensor &cast = run.casts[input.taken].cast;
    if (cast.scalar_type() != input.dtype)
      return "autocast keeps the cast of a weight in another dtype";
    if (!input.isBesideWeight)
      continue;
    const c10::TensorImpl *&first = besideWeight[input.weight];
    first = first ? first : cast.unsafeGetTensorImpl();
    if (first != cast.unsafeGetTensorImpl())
      return "a weight is used as it is and cast in two regions: autograd adds the gradients in the order of "
             "the uses";
  }
  return "";
}

} // namespace graphopt::driver
