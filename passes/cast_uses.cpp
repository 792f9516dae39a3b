// A piece is compared as text is: casts of the weight taken out on the one side, the unit given the cast on
// the other.
#include "passes/cast_uses.h"

#include "ir/compare.h"
#include "ir/dtype.h"
#include "passes/sized_pieces.h"

#include <algorithm>
#include <fmt/format.h>

namespace graphopt::passes {
namespace {

using Kind = CastUse::Kind;

const ir::Attr *word(const ir::Graph &graph, const ir::Op &op, std::string_view name) {
  for (const ir::NamedAttr &attr : graph.states[op.state].ambient)
    if (attr.name == name)
      return &attr.value;
  return nullptr;
}

bool isOff(const ir::Graph &graph, const ir::Op &op, std::string_view name) {
  const ir::Attr *value = word(graph, op, name);
  return value && value->isWord("off");
}

bool isCast(const ir::Op &op, ir::DType dtype) {
  const ir::Attr *to = op.attr("dtype");
  return op.isCall("aten._to_copy") && to && to->isWord(ir::dtypeName(dtype));
}

/// What the operator was asked to compute in is not autocast's doing.
bool asksForDType(const ir::Op &op, ir::DType dtype) {
  return std::ranges::any_of(
      op.attrs, [&](const ir::NamedAttr &attr) { return attr.value.isWord(ir::dtypeName(dtype)); });
}

/// Without the numbered values after the results.
void dropNumbered(ir::Graph &graph, size_t results) {
  std::vector<ir::Operand> operands = graph.returnOp()->operands();
  operands.resize(results);
  graph.returnOp()->setOperands(std::move(operands));
}

size_t usesIn(const ir::Graph &graph, const ir::Value *value) {
  return static_cast<size_t>(std::ranges::count_if(value->users(), [&](const ir::Op *user) {
    return user != graph.returnOp() && !user->isRegion(); // a region lists what is used inside
  }));
}

class Look {
public:
  Look(Unit unit, size_t input, ir::DType dtype, ir::PieceSource &pieces)
      : unit_(std::move(unit)), input_(input), dtype_(dtype), pieces_(pieces) {}

  CastUse operator()() {
    const ir::ForwardPiece &piece = pieces_.forward(unit_.graph);
    if (!piece.opaque.empty())
      return unclear("cannot be taken apart: " + piece.opaque);
    ir::Graph plain = piece.graph.clone();
    dropNumbered(plain, piece.results);
    if (!dropCasts(plain))
      return use_;
    const ir::ForwardPiece &onCast = pieces_.forward(withCast());
    if (!onCast.opaque.empty())
      return unclear("does not run on the cast alone: " + onCast.opaque);
    ir::Graph other = onCast.graph.clone();
    dropNumbered(other, onCast.results);
    if (std::string d = ir::difference(plain, other, {.names = false, .states = false}); !d.empty())
      return unclear("is another one on the cast: " + d);
    use_.times = usesIn(other, other.declared(ir::Value::Kind::Input).at(input_));
    return use_;
  }

private:
  CastUse unclear(const std::string &why) const {
    return {Kind::Unclear, {}, 0, fmt::format("{} under autocast {}", nameOf(), why)};
  }
  const std::string &nameOf() const { return unit_.graph.body().ops().front()->name; }

  /// Leaves the input in place of its casts. False: use_ is the answer.
  bool dropCasts(ir::Graph &piece) {
    ir::Value *input = piece.declared(ir::Value::Kind::Input).at(input_);
    std::vector<ir::Op *> casts;
    for (ir::Op *user : input->users())
      if (isCast(*user, dtype_))
        casts.push_back(user);
    if (casts.empty())
      return false;
    if (casts.size() != input->users().size()) {
      use_ = unclear("takes a weight both cast and as it is");
      return false;
    }
    use_.kind = Kind::Cast;
    use_.type = casts.front()->result()->type;
    for (ir::Op *cast : casts) {
      if (std::ranges::find(cast->result()->users(), piece.returnOp()) != cast->result()->users().end()) {
        use_ = {}; // the cast is what was asked for
        return false;
      }
      piece.replaceAllUses(cast->result(), input);
      piece.erase(cast);
    }
    input->type = use_.type;
    return true;
  }

  ir::Graph withCast() const {
    ir::Graph graph = unit_.graph.clone();
    ir::Value *input = graph.declared(ir::Value::Kind::Input).at(input_);
    const bool grad = input->type.grad;
    input->type = use_.type;
    input->type.grad = grad;
    return graph;
  }

  const Unit unit_;
  const size_t input_;
  const ir::DType dtype_;
  ir::PieceSource &pieces_;
  CastUse use_;
};

bool isDifferentiable(const ir::Type &type) {
  return type.isTensor() && (ir::isFloating(type.dtype) || ir::isComplex(type.dtype));
}

} // namespace

std::optional<ir::DType> keptDType(const ir::Graph &graph, const ir::Op &op) {
  const ir::Attr *amp = word(graph, op, "amp");
  if (op.kind != ir::Op::Kind::Call || !amp || amp->isWord("off") || isOff(graph, op, "amp_cache"))
    return std::nullopt;
  return ir::parseDType(amp->text());
}

std::vector<ir::Value *> possibleWeights(const ir::Op &op) {
  std::vector<ir::Value *> weights;
  op.forEachValue([&](const ir::Operand &operand) {
    const ir::Type &type = operand.value->type;
    if (operand.value->isDeclared() && type.grad && type.isTensor() && type.dtype == ir::DType::Float &&
        std::ranges::find(weights, operand.value) == weights.end())
      weights.push_back(operand.value);
  });
  return weights;
}

CastUse castUseOf(const ir::Graph &graph, const ir::Op &op, const ir::Value *weight,
                  const NeedsGrad &needsGrad, ir::PieceSource &pieces) {
  const ir::DType dtype = *keptDType(graph, op);
  if (op.writesAny() || asksForDType(op, dtype)) // autocast casts for no operator in place
    return {};
  Unit unit = unitOf(graph, op, needsGrad);
  const auto place = std::ranges::find(unit.operands, weight);
  const auto input = static_cast<size_t>(place - unit.operands.begin());
  SizedPieces sized(pieces);
  ir::PieceSource &source = graph.syms.empty() ? pieces : sized;
  return Look(std::move(unit), input, dtype, source)();
}

NeedsGrad likelyNeedsGrad(const ir::Graph &graph) {
  NeedsGrad needs;
  for (const auto &op : graph.body()) {
    bool any = false;
    op->forEachValue([&](const ir::Operand &operand) {
      auto known = needs.find(operand.value);
      any |= known != needs.end() ? known->second : operand.value->isDeclared() && operand.value->type.grad;
    });
    const bool isUpdate =
        op->kind == ir::Op::Kind::Update; // without gradients too, what it writes keeps its own
    any &= isUpdate || (!isOff(graph, *op, "grad") && !op->name.starts_with("aten.detach"));
    for (const ir::Value *result : op->results())
      needs[result] = any && isDifferentiable(result->type);
  }
  return needs;
}

} // namespace graphopt::passes
