// How often autograd adds to an operand's gradient is seen in the operator's piece (ir/pieces.h).
#include "passes/own_uses.h"

#include "passes/cast_uses.h"
#include "passes/sized_pieces.h"

#include <algorithm>
#include <fmt/format.h>
#include <graphopt/error.h>

namespace graphopt::passes {
namespace {

using ir::Op;
using ir::Value;

/// Whether one gradient reaches an operand of the unit, whatever it is made of: added to the gradient so far
/// as a whole.
bool addsOnce(const ir::BackwardPiece &piece, size_t operand) {
  const std::string soFar = fmt::format("s{}", operand);
  const ir::Operand &gradient = piece.graph.returnOp()->operands().at(operand);
  if (!gradient.isValue() || !gradient.value->isResult())
    return gradient.isValue() && gradient.value->name == soFar; // nothing was added
  const Op &last = *gradient.value->def;
  if (!last.isCall("aten.add.Tensor"))
    return false;
  return std::ranges::any_of(last.operands(), [&](const ir::Operand &term) {
    return term.isValue() && term.value->name == soFar && term.value->users().size() == 1;
  });
}

class Uses {
public:
  Uses(GraphPart &part, Value *input, ir::PieceSource &pieces, const ir::OpCatalog *catalog)
      : part_(part), graph_(part.graph), input_(input), pieces_(pieces), catalog_(catalog) {
    for (Op *op : graph_.body().ops())
      if (op->computes() && op->usesValue(input))
        for (size_t i = timesTaken(*op); i > 0; --i)
          uses_.push_back({op, i > 1});
  }

  size_t size() const { return uses_.size(); }

  /// An operator that may take the input several times inside; null when there is none.
  const Op *unclear() {
    for (const Use &use : uses_)
      if (!use.isOneOfSeveral && !isAddedOnce(*use.op))
        return use.op;
    return nullptr;
  }

  void give() {
    if (uses_.size() < 2)
      return;
    std::vector<Op *> ops;
    for (const Use &use : uses_)
      if (!use.isOneOfSeveral)
        ops.push_back(use.op);
    for (auto op = ops.rbegin(); op != ops.rend(); ++op)
      giveTo(**op);
    input_->type.grad = false;
    if (!input_->hasUses())
      graph_.eraseDeclaration(input_);
  }

private:
  struct Use {
    Op *op = nullptr;
    bool isOneOfSeveral = false; ///< operands of one operator, but for the last
  };

  /// As operands of their own; kernels do not ask whether two are one tensor, operators made of others may.
  size_t timesTaken(const Op &op) const {
    const ir::OpInfo *info = op.kind == Op::Kind::Call && catalog_ ? catalog_->find(op.name) : nullptr;
    const bool mayAsk = !info || info->composite;
    return mayAsk ? 1 : std::max<size_t>(1, countIn(op));
  }
  size_t countIn(const Op &op) const {
    return static_cast<size_t>(std::ranges::count(op.operands(), input_, &ir::Operand::value));
  }

  Value *declare() {
    Value *use = graph_.declare(input_->kind, graph_.freshName(input_->name + ".use"), input_->type);
    part_.uses[use->name] = input_->name;
    return use;
  }

  void giveTo(Op &op) {
    for (size_t left = timesTaken(op); left > 1; --left)
      replaceFirst(op, input_, declare());
    Value *last = declare();
    op.replaceUses(input_, last);
    if (op.body())
      for (Op *inner : op.body()->ops())
        inner->replaceUses(input_, last);
  }

  static void replaceFirst(Op &op, const Value *value, Value *by) {
    std::vector<ir::Operand> operands = op.operands();
    std::ranges::find(operands, value, &ir::Operand::value)->value = by;
    op.setOperands(std::move(operands));
  }

  /// Looked at with operands apart, as giveTo() leaves them.
  bool isAddedOnce(const Op &op) {
    if (timesTaken(op) == 1)
      return isAddedOnce(graph_, op, input_);
    ir::Graph alone = graph_.clone();
    Op *copy = alone.body().ops().at(positionOf(op));
    const Value *input = alone.find(input_->name);
    std::vector<const Value *> inputs{input};
    for (size_t left = timesTaken(op); left > 1; --left) {
      Value *own = alone.declare(input_->kind, alone.freshName(input_->name), input_->type);
      inputs.push_back(own);
      replaceFirst(*copy, input, own);
    }
    return std::ranges::all_of(inputs, [&](const Value *value) { return isAddedOnce(alone, *copy, value); });
  }

  size_t positionOf(const Op &op) const {
    const std::vector<Op *> ops = graph_.body().ops();
    return static_cast<size_t>(std::ranges::find(ops, &op) - ops.begin());
  }

  bool isAddedOnce(const ir::Graph &graph, const Op &op, const Value *value) {
    const Unit unit = unitOf(graph, op, likelyNeedsGrad(graph));
    SizedPieces sized(pieces_);
    const ir::ForwardPiece &forward = sized.forward(unit.graph);
    if (!forward.opaque.empty())
      return false;
    ir::GradientTypes cotangents, soFar;
    for (size_t i = 0; i < op.results().size(); ++i)
      cotangents.push_back(forward.requiresGrad.at(i) ? std::optional(plain(*op.result(i))) : std::nullopt);
    if (std::ranges::none_of(cotangents, [](const auto &type) { return type.has_value(); }))
      return true; // no gradient comes from here
    const size_t operand =
        static_cast<size_t>(std::ranges::find(unit.operands, value) - unit.operands.begin());
    for (size_t i = 0; i < unit.operands.size(); ++i)
      soFar.push_back(i == operand ? std::optional(plain(*value)) : std::nullopt);
    const ir::BackwardPiece &piece = sized.backward(unit.graph, cotangents, soFar);
    return piece.opaque.empty() && addsOnce(piece, operand);
  }

  static ir::Type plain(const Value &value) {
    ir::Type type = value.type;
    type.grad = false;
    return type;
  }

  GraphPart &part_;
  ir::Graph &graph_;
  Value *const input_;
  ir::PieceSource &pieces_;
  const ir::OpCatalog *catalog_;
  std::vector<Use> uses_; // in order of the program
};

} // namespace

void giveOwnUses(GraphPart &part, Value *input, Gradients others, ir::PieceSource &pieces,
                 const ir::OpCatalog *catalog) {
  constexpr size_t kMany = 4;
  Uses uses(part, input, pieces, catalog);
  if (others == Gradients::MayComeFirst && (uses.size() < 2 || uses.size() > kMany))
    return;
  if (const Op *op = uses.unclear()) {
    if (others == Gradients::MayComeFirst)
      return;
    userError(fmt::format("'{}' may take '%{}' several times inside: autograd adds their gradients one by "
                          "one, between those of others",
                          op->kind == Op::Kind::Update ? "update" : op->name, input->name));
  }
  uses.give();
}

} // namespace graphopt::passes
