// Autocast's kept casts made explicit: one cast for all uses of a weight.
//
// Under autocast eager casts a weight (an f32 leaf that requires gradients) once and keeps the cast until the
// region ends, so that the gradients of its uses are added in the low precision before the one cast takes
// them back. Lowering looks at each operator alone, and would cast at each use. Here the cast becomes an
// operator of its own, where the first use stands (with gradients on, as LibTorch makes it also for a use
// under no_grad), and takes the weight's place. All other casts stay inside the operators that
// make them, which keep their ambient state.
//
// A graph counts as one region, and what it declares with gradients as leaves. Raw form, since a cast that is
// kept does not follow later writes to its weight.
#include "passes/pass_list.h"

#include "ir/dtype.h"
#include "passes/cast_uses.h"

#include <algorithm>
#include <graphopt/error.h>

#include <unordered_map>

namespace graphopt::passes {
namespace {

class Autocast {
public:
  Autocast(ir::Graph &graph, PassContext &context) : graph_(graph), context_(context) {}

  Changed run() {
    for (ir::Op *op : graph_.body().ops())
      if (keptDType(graph_, *op))
        visit(op);
    return casts_.empty() ? Changed::No : Changed::Yes;
  }

private:
  void visit(ir::Op *op) {
    for (ir::Value *weight : possibleWeights(*op))
      replace(op, weight);
  }

  void replace(ir::Op *op, ir::Value *weight) {
    if (!context_.pieces)
      userError("autocast needs somebody who runs operators: text alone does not say what they cast");
    if (!needsGrad_)
      needsGrad_ = likelyNeedsGrad(graph_);
    const CastUse use = castUseOf(graph_, *op, weight, *needsGrad_, *context_.pieces);
    if (use.kind == CastUse::Kind::Unclear)
      userError(use.why);
    if (use.kind == CastUse::Kind::None)
      return;
    ir::Value *&cast = casts_[weight];
    if (!cast)
      cast = castBefore(op, weight, use.type);
    op->replaceUses(weight, cast);
    ++context_.statistics["uses of kept casts"];
  }

  ir::Value *castBefore(ir::Op *op, ir::Value *weight, const ir::Type &type) {
    ir::Op *cast = graph_.insertBefore(op, ir::Op::Kind::Call, "aten.to.dtype", {ir::Operand::of(weight)},
                                       {{"dtype", ir::Attr::word(std::string(ir::dtypeName(type.dtype)))}},
                                       {{weight->name + ".cast", type}});
    ir::OpState state = graph_.states[op->state];
    std::erase_if(state.ambient, [](const ir::NamedAttr &word) { return word.name != "inference"; });
    cast->state = graph_.intern(state);
    ++context_.statistics["casts kept"];
    return cast->result();
  }

  ir::Graph &graph_;
  PassContext &context_;
  std::optional<NeedsGrad> needsGrad_;
  std::unordered_map<const ir::Value *, ir::Value *> casts_; // by weight
};

} // namespace

Changed autocast(ir::Graph &graph, PassContext &context) { return Autocast(graph, context).run(); }

} // namespace graphopt::passes
