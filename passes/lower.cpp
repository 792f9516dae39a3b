// Captured to lowered: each operator as the user called it gives way to what LibTorch runs for it below
// autograd, known from a probe of the operator alone (ir/pieces.h). With the option joint=on the backward
// follows: gradients of everything declared with grad, for cotangents of everything returned.
//
// An operator that cannot be taken apart stays as it is, under its own ambient state and the word opaque=on.
#include "passes/pass_list.h"

#include "ir/alias.h"
#include "passes/regions.h"
#include "passes/reverse_sweep.h"
#include "passes/sized_pieces.h"

#include <algorithm>
#include <fmt/format.h>
#include <graphopt/error.h>

namespace graphopt::passes {
namespace {

bool isOn(const PassContext &context, const std::string &option) {
  auto given = context.options.find(option);
  if (given == context.options.end())
    return false;
  if (given->second != "on" && given->second != "off")
    userError(fmt::format("option {}={} of lower is not understood: write on or off", option, given->second));
  return given->second == "on";
}

class Lowering {
public:
  Lowering(ir::Graph &graph, PassContext &context, ir::PieceSource &pieces)
      : graph_(graph), context_(context), pieces_(pieces), splicer_(graph), isJoint_(isOn(context, "joint")) {
  }

  void run() {
    takeCotangents();
    for (ir::Op *op : graph_.body().ops())
      visit(op);
    graph_.stage = ir::Stage::Lowered;
    dropWrongMarks();
    if (isJoint_)
      appendBackward(graph_, forward_, context_, pieces_, splicer_);
  }

private:
  /// From the header, since they are of this graph alone and of no operator's piece.
  void takeCotangents() {
    std::erase_if(graph_.settings, [&](const ir::NamedAttr &setting) {
      const bool isCotangents = setting.name == "cotangents";
      if ((!isCotangents && setting.name != "vjp_gradients") || !setting.value.isList())
        return false;
      (isCotangents ? forward_.cotangents : forward_.vjpGradients) = setting.value.items();
      return true;
    });
  }

  void visit(ir::Op *op) {
    if (op->kind == ir::Op::Kind::Border && op->name == "untraced")
      userError(fmt::format("after border #{} the graph does not hold what the program did", op->number));
    if (op->kind != ir::Op::Kind::Call && op->kind != ir::Op::Kind::Update)
      return; // host reads, write-backs and the return stay
    ++position_;
    if (op->kind == ir::Op::Kind::Update)
      for (const ir::Value *written : overwrittenBy(*op, context_.catalog))
        forward_.overwritten[written] = {position_, nameOf(*op)};
    Unit unit = unitOf(graph_, *op, forward_.needsGrad);
    const ir::ForwardPiece &piece = pieces_.forward(unit.graph);
    if (piece.opaque.empty())
      replace(op, std::move(unit), piece);
    else
      keep(op, std::move(unit), piece);
  }

  static std::string nameOf(const ir::Op &op) {
    if (op.kind == ir::Op::Kind::Call)
      return op.name;
    for (const auto &inner : *op.body())
      if (inner->writesAny() && inner->name != "aten.copy_")
        return inner->name;
    return "aten.copy_";
  }

  void replace(ir::Op *op, Unit unit, const ir::ForwardPiece &piece) {
    Spliced spliced;
    spliced.name = nameOf(*op);
    spliced.position = position_;
    spliced.state = belowAutograd(op->state);
    ir::ValueMap map;
    const std::vector<ir::Value *> inputs = piece.graph.declared(ir::Value::Kind::Input);
    for (size_t i = 0; i < inputs.size(); ++i)
      map[inputs[i]] = unit.operands[i];
    splicer_.splice(piece.graph, op, spliced.state, map);
    spliced.numbered = unit.operands;
    const std::vector<ir::Operand> &returned = piece.graph.returnOp()->operands();
    for (size_t i = 0; i < returned.size(); ++i) {
      ir::Value *value = returned[i].isValue() ? map.at(returned[i].value) : nullptr;
      (i < piece.results ? spliced.results : spliced.numbered).push_back(value);
    }
    spliced.requiresGrad = piece.requiresGrad;
    spliced.unit = std::move(unit);
    takeOver(op, spliced);
    forward_.operators.push_back(std::move(spliced));
    ++context_.statistics["operators lowered"];
  }

  /// The pieces' results for the operator's, under the operator's names.
  void takeOver(ir::Op *op, const Spliced &spliced) {
    for (size_t i = 0; i < op->results().size(); ++i) {
      ir::Value *old = op->result(i), *value = spliced.results[i];
      if (!value) {
        if (old->hasUses())
          userError(fmt::format("'{}' op gives no result {} when it runs alone", spliced.name, i));
        continue;
      }
      graph_.replaceAllUses(old, value);
      const bool isOwn =
          value->isResult() && std::find(spliced.unit.operands.begin(), spliced.unit.operands.end(), value) ==
                                   spliced.unit.operands.end();
      if (!isOwn)
        continue;
      forward_.needsGrad[value] = forward_.needsGrad[value] || spliced.requiresGrad[i];
      graph_.exchangeNames(old, value);
    }
    graph_.erase(op);
  }

  void keep(ir::Op *op, Unit unit, const ir::ForwardPiece &piece) {
    ++context_.statistics[fmt::format("opaque: {}: {}", nameOf(*op), piece.opaque)];
    op->state = asOpaque(op->state);
    if (op->body())
      for (const auto &inner : *op->body())
        inner->state = asOpaque(inner->state);
    if (!std::ranges::any_of(unit.graph.declarations(), [](const auto *value) { return value->type.grad; }))
      return;
    Spliced kept;
    kept.name = nameOf(*op);
    kept.position = position_;
    kept.state = op->state;
    kept.isOpaque = true;
    kept.results = op->results();
    for (size_t i = 0; i < op->results().size(); ++i) {
      const bool isKnown = piece.requiresGrad.size() == op->results().size();
      kept.requiresGrad.push_back(isKnown ? piece.requiresGrad[i]
                                          : mayRequireGrad(unit.graph, op->result(i)->type));
      forward_.needsGrad[op->result(i)] = kept.requiresGrad.back();
    }
    kept.unit = std::move(unit);
    forward_.operators.push_back(std::move(kept));
  }

  /// Grad mode stays: some kernels ask for it, though nothing is recorded below autograd.
  uint32_t belowAutograd(uint32_t number) {
    ir::OpState state = graph_.states[number];
    std::erase_if(state.ambient, [](const ir::NamedAttr &word) { return word.name != "grad"; });
    return graph_.intern(state);
  }

  /// An operator that gave back a view of its operand where it was recorded may be made of others that copy.
  void dropWrongMarks() {
    const ir::AliasInfo aliases(graph_);
    std::vector<ir::Operand> operands = graph_.returnOp()->operands();
    for (ir::Operand &operand : operands)
      if (operand.isValue() && operand.mark == ir::Mark::Alias && !aliases.base(operand.value)->isDeclared())
        operand.mark = ir::Mark::None;
    graph_.returnOp()->setOperands(std::move(operands));
  }

  uint32_t asOpaque(uint32_t number) {
    ir::OpState state = graph_.states[number];
    const auto names = [](std::string_view name) {
      return [name](const ir::NamedAttr &word) { return word.name == name; };
    };
    // Casts that autocast keeps stand in the graph by now: all others are made at each use.
    if (std::ranges::any_of(state.ambient, names("amp")) &&
        std::ranges::none_of(state.ambient, names("amp_cache")))
      state.ambient.push_back({"amp_cache", ir::Attr::word("off")});
    state.ambient.push_back({"opaque", ir::Attr::word("on")});
    return graph_.intern(state);
  }

  /// Nobody ran it: what is of numbers that have derivatives, made with gradients on, counts as having them.
  static bool mayRequireGrad(const ir::Graph &unit, const ir::Type &type) {
    const bool isOff =
        std::ranges::any_of(unit.states[unit.body().ops().front()->state].ambient, [](const auto &word) {
          return (word.name == "grad" && word.value.isWord("off")) ||
                 (word.name == "inference" && word.value.isWord("on"));
        });
    return !isOff && type.isTensor() && (ir::isFloating(type.dtype) || ir::isComplex(type.dtype));
  }

  ir::Graph &graph_;
  PassContext &context_;
  ir::PieceSource &pieces_;
  Splicer splicer_;
  const bool isJoint_;
  size_t position_ = 0; // of the operator that is visited
  LoweredForward forward_;
};

} // namespace

Changed lower(ir::Graph &graph, PassContext &context) {
  if (!context.pieces)
    userError("lower needs somebody who runs operators: text alone does not say what they are made of");
  SizedPieces sized(*context.pieces);
  Lowering(graph, context, sized).run();
  return Changed::Yes;
}

} // namespace graphopt::passes
