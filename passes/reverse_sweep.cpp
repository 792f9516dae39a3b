// Autograd's engine runs nodes in descending order of their making, and adds gradients of one tensor in the
// order in which they arrive. Reverse program order is that order; and a piece that is given the gradient so
// far adds to it itself, as ((so far + a) + b), which is not so far + (a + b) in floating point.
#include "passes/reverse_sweep.h"

#include "ir/alias.h"
#include "ir/effects.h"
#include "passes/hand_pieces.h"
#include "passes/redraw.h"
#include "passes/regions.h"

#include <algorithm>
#include <fmt/format.h>
#include <graphopt/error.h>
#include <unordered_set>

namespace graphopt::passes {
namespace {

class ReverseSweep {
public:
  ReverseSweep(ir::Graph &graph, const LoweredForward &forward, PassContext &context, ir::PieceSource &pieces,
               Splicer &splicer)
      : graph_(graph), forward_(forward), needsGrad_(forward.needsGrad), pieces_(pieces),
        catalog_(context.catalog), statistics_(context.statistics), splicer_(splicer), aliases_(graph) {
    for (const auto &[value, write] : forward.overwritten) {
      LoweredForward::Write &last = overwritten_[aliases_.base(value)];
      if (write.position > last.position)
        last = write;
    }
  }

  void run() {
    return_ = graph_.returnOp();
    end_ = firstOfTheEnd();
    checkWritebacks();
    declareCotangents();
    for (auto op = forward_.operators.rbegin(); op != forward_.operators.rend(); ++op)
      visit(*op);
    returnGradients();
    graph_.settings.push_back({"outputs", ir::Attr::list(std::move(outputs_))});
  }

private:
  bool needs(const ir::Value *value) const {
    auto known = needsGrad_.find(value);
    return known != needsGrad_.end() ? known->second : value->isDeclared() && value->type.grad;
  }

  /// All computation stands before the write-backs.
  ir::Op *firstOfTheEnd() const {
    for (const auto &op : graph_.body())
      if (op->kind == ir::Op::Kind::Writeback)
        return op.get();
    return return_;
  }

  // ---- outputs

  void declareCotangents() {
    const std::vector<ir::Operand> operands = return_->operands();
    for (size_t i = 0; i < operands.size(); ++i) {
      const ir::Operand &operand = operands[i];
      ir::Value *output = operand.isValue() && operand.value->type.isTensor() ? newest(operand) : nullptr;
      const bool isDifferentiable = output && needs(output);
      const ir::Attr form = i < forward_.cotangents.size() ? forward_.cotangents[i] : ir::Attr();
      const bool isUndefined = isDifferentiable && form.isWord("undefined");
      outputs_.push_back(isUndefined ? form : ir::Attr::boolean(isDifferentiable));
      if (!isDifferentiable || isUndefined)
        continue;
      ir::Type type = operand.value->type;
      type.grad = false;
      if (form.isList())
        type.setStrides(dimsOf(form));
      const std::string name = graph_.freshName("d." + operand.value->name);
      addTo(output, graph_.declare(ir::Value::Kind::Cotangent, name, std::move(type)));
    }
  }

  static std::vector<ir::Dim> dimsOf(const ir::Attr &list) {
    std::vector<ir::Dim> dims;
    for (const ir::Attr &item : list.items())
      dims.push_back(item.asDim());
    return dims;
  }

  void checkWritebacks() const {
    for (const auto &op : graph_.body())
      if (op->kind == ir::Op::Kind::Writeback && needs(op->operands()[1].value))
        userError(
            fmt::format("'%{}' is written with a value that requires gradients: what the caller does with it "
                        "afterwards has no graph",
                        op->operands()[0].value->name));
  }

  /// A tensor of the caller's that was written is returned as it is after the write-back.
  ir::Value *newest(const ir::Operand &operand) {
    if (operand.mark != ir::Mark::Alias)
      return operand.value;
    const ir::Value *base = aliases_.base(operand.value);
    for (const auto &op : graph_.body()) {
      if (op->kind != ir::Op::Kind::Writeback || op->operands()[0].value != base)
        continue;
      if (base != operand.value)
        userError(
            fmt::format("output '%{}' is a view of '%{}', which the program writes: its gradient has no "
                        "graph; return a clone of it",
                        operand.value->name, base->name));
      return op->operands()[1].value;
    }
    return operand.value;
  }

  /// One tensor returned twice has the sum of its cotangents.
  void addTo(ir::Value *value, ir::Value *cotangent) {
    ir::Value *&known = cotangents_[value];
    if (!known) {
      known = cotangent;
      return;
    }
    ir::Op *sum =
        graph_.insertBefore(end_, ir::Op::Kind::Call, "aten.add.Tensor",
                            {ir::Operand::of(known), ir::Operand::of(cotangent)}, {}, {{"d", known->type}});
    known = sum->result();
  }

  // ---- one operator

  std::optional<ir::Type> typeOfCotangent(const ir::Value *value) const {
    auto known = cotangents_.find(value);
    if (known == cotangents_.end())
      return std::nullopt;
    ir::Type type = known->second->type;
    type.grad = false;
    return type;
  }

  static bool has(const std::vector<ir::Value *> &values, const ir::Value *value) {
    return std::find(values.begin(), values.end(), value) != values.end();
  }

  void visit(const Spliced &op) {
    ir::GradientTypes cotangents, soFar;
    std::unordered_set<const ir::Value *> seen;
    for (size_t i = 0; i < op.results.size(); ++i) {
      const ir::Value *result = op.results[i];
      const bool isRoot =
          result && op.requiresGrad[i] && !has(op.unit.operands, result) && seen.insert(result).second;
      cotangents.push_back(isRoot ? typeOfCotangent(result) : std::nullopt);
    }
    if (std::none_of(cotangents.begin(), cotangents.end(), [](const auto &type) { return type.has_value(); }))
      return;
    for (const ir::Value *operand : op.unit.operands)
      soFar.push_back(needs(operand) ? typeOfCotangent(operand) : std::nullopt);
    if (op.isOpaque)
      return appendVjp(op, cotangents, soFar);
    if (countsFromStorage(op.unit.graph)) {
      ++statistics_[fmt::format("opaque backward: {}: it counts from where its memory begins", op.name)];
      return appendVjp(op, cotangents, soFar);
    }
    const ir::BackwardPiece &piece = pieces_.backward(op.unit.graph, cotangents, soFar);
    if (piece.opaque.empty())
      return takeGradients(op, piece.graph, splicedMap(op, piece.graph));
    if (const std::optional<ir::Graph> byHand =
            handBackward(op.unit.graph, numberOf(op, op.results[0]), cotangents, soFar))
      return takeGradients(op, *byHand, splicedMap(op, *byHand));
    ++statistics_[fmt::format("opaque backward: {}: {}", op.name, piece.opaque)];
    appendVjp(op, cotangents, soFar);
  }

  static size_t numberOf(const Spliced &op, const ir::Value *value) {
    return static_cast<size_t>(std::ranges::find(op.numbered, value) - op.numbered.begin());
  }

  ir::ValueMap splicedMap(const Spliced &op, const ir::Graph &piece) {
    ir::ValueMap map;
    for (const ir::Value *input : piece.declared(ir::Value::Kind::Input)) {
      const size_t number = std::stoul(input->name.substr(1));
      ir::Value *value = input->name[0] == 'v'   ? op.numbered.at(number)
                         : input->name[0] == 'g' ? cotangents_.at(op.results.at(number))
                                                 : cotangents_.at(op.unit.operands.at(number));
      if (!value)
        userError(fmt::format("the backward of '{}' reads a value that its forward does not keep", op.name));
      if (input->name[0] == 'v')
        checkAsItWas(op, value);
      map[input] = value;
    }
    splicer_.splice(piece, end_, backwardState(op.state), map);
    return map;
  }

  /// Autograd compares the version of what it saved.
  void checkAsItWas(const Spliced &op, const ir::Value *value) const {
    const auto write = overwritten_.find(aliases_.base(value));
    if (write == overwritten_.end() || write->second.position <= op.position)
      return;
    userError(fmt::format("the backward of '{}' reads what '{}' writes in place afterwards, for which "
                          "autograd raises an error",
                          op.name, write->second.name));
  }

  /// Autograd's engine runs with grad mode off.
  uint32_t backwardState(uint32_t forward) {
    ir::OpState state = graph_.states[forward];
    state.ambient = {{"grad", ir::Attr::word("off")}};
    return graph_.intern(state);
  }

  void takeGradients(const Spliced &op, const ir::Graph &piece, const ir::ValueMap &map) {
    const std::vector<ir::Operand> &returned = piece.returnOp()->operands();
    for (size_t i = 0; i < returned.size(); ++i)
      if (returned[i].isValue())
        cotangents_[op.unit.operands[i]] = map.at(returned[i].value);
  }

  // ---- an operator that was not taken apart

  /// Runs the operator again, under autograd, and asks for gradients.
  void appendVjp(const Spliced &op, const ir::GradientTypes &cotangents, const ir::GradientTypes &soFar) {
    for (const ir::Value *operand : op.unit.operands)
      checkAsItWas(op, operand);
    ir::Op *vjp = graph_.insertBefore(end_, ir::Op::Kind::Vjp, "", {},
                                      {{"operator", ir::Attr::integer(static_cast<int64_t>(op.position))}});
    if (mayDraw(op.unit.graph))
      drawAgain(op, graph_.makeBody(vjp));
    ir::ValueMap map = bodyOf(op, graph_.makeBody(vjp));
    std::vector<ir::Operand> outputs, given, wrt;
    std::vector<ir::Attr> undefined;
    for (size_t i = 0; i < soFar.size(); ++i) // first, as in a piece
      if (soFar[i])
        addRoot(op.unit.operands[i], cotangents_.at(op.unit.operands[i]), outputs, given);
    const std::vector<ir::Operand> &returned = op.unit.graph.returnOp()->operands();
    for (size_t i = 0; i < cotangents.size(); ++i)
      if (cotangents[i])
        addRoot(map.at(returned[i].value), cotangents_.at(op.results[i]), outputs, given);
    for (ir::Value *operand : op.unit.operands)
      if (needs(operand)) {
        const ir::Attr form = formOf(op, wrt.size());
        graph_.addResult(vjp, "d", gradientType(operand->type, form));
        if (form.isWord("undefined"))
          undefined.push_back(ir::Attr::integer(static_cast<int64_t>(wrt.size())));
        wrt.push_back(ir::Operand::of(operand));
      }
    if (!undefined.empty())
      vjp->setAttr("undefined", ir::Attr::list(undefined));
    ir::Op *yield = graph_.append(
        *vjp->body(), ir::Op::Kind::Yield, "",
        {ir::Operand::list(std::move(outputs)), ir::Operand::list(std::move(given)), ir::Operand::list(wrt)});
    yield->state = vjp->body()->ops().front()->state;
    vjp->setOperands(capturesOf(*vjp->body()));
    for (size_t i = 0; i < wrt.size(); ++i)
      if (formOf(op, i).isWord("undefined"))
        cotangents_.erase(wrt[i].value);
      else
        cotangents_[wrt[i].value] = vjp->result(i);
  }

  /// Of gradient `number` of the operator's vjp; none: contiguous.
  ir::Attr formOf(const Spliced &op, size_t number) const {
    for (const ir::Attr &entry : forward_.vjpGradients)
      if (const auto &items = entry.items(); items.at(0).asInt() == static_cast<int64_t>(op.position) &&
                                             items.at(1).asInt() == static_cast<int64_t>(number))
        return items.at(2);
    return {};
  }

  /// Its derivative asks where in its memory the operand begins, which no type says.
  static bool countsFromStorage(const ir::Graph &unit) {
    return std::ranges::any_of(unit.body(),
                               [](const auto &op) { return op->name.starts_with("aten.as_strided"); });
  }

  bool mayDraw(const ir::Graph &unit) const {
    return std::ranges::any_of(unit.body(), [&](const auto &op) { return ir::mayDraw(*op, catalog_); });
  }

  /// From the states of the generators that the operator found.
  void drawAgain(const Spliced &op, ir::Block &body) {
    if (!op.isOpaque)
      userError(
          fmt::format("'{}' draws random numbers, and only its forward can be taken apart: the operators "
                      "that it is made of cannot be told to draw them again",
                      op.name));
    ir::Op *draw = op.results.at(0)->def;
    for (const ir::Device &device : devicesOfDraws(graph_, *draw))
      appendSetRngState(graph_, body, insertRngState(graph_, draw, draw->result()->name + ".rng", device),
                        device, *draw);
  }

  ir::ValueMap bodyOf(const Spliced &op, ir::Block &body) {
    ir::ValueMap map;
    const std::vector<ir::Value *> inputs = op.unit.graph.declared(ir::Value::Kind::Input);
    for (size_t i = 0; i < inputs.size(); ++i)
      map[inputs[i]] = op.unit.operands[i];
    for (const auto &inner : op.unit.graph.body()) {
      if (inner->kind == ir::Op::Kind::Return)
        break;
      ir::OpState state = op.unit.graph.states[inner->state];
      state.scope = graph_.states[op.state].scope;
      state.ambient.push_back({"opaque", ir::Attr::word("on")});
      ir::copyOp(graph_, body, nullptr, *inner, map)->state = graph_.intern(state);
    }
    return map;
  }

  static void addRoot(ir::Value *output, ir::Value *cotangent, std::vector<ir::Operand> &outputs,
                      std::vector<ir::Operand> &given) {
    outputs.push_back(ir::Operand::of(output));
    given.push_back(ir::Operand::of(cotangent));
  }

  static ir::Type gradientType(const ir::Type &of, const ir::Attr &form) {
    ir::Type type = ir::Type::tensor(of.dtype, of.sizes);
    type.device = of.device;
    std::vector<uint8_t> order;
    if (!form.isList())
      return type;
    if (!form.items().empty() && form.items().front().isList()) {
      if (form.items().front().items().size() == type.rank())
        type.setStrides(dimsOf(form.items().front()));
      return type;
    }
    for (const ir::Attr &dim : form.items())
      order.push_back(static_cast<uint8_t>(dim.asInt()));
    if (std::ranges::all_of(order,
                            [&](uint8_t dim) { return dim < type.rank(); })) // else of another operator
      type.setStrides(ir::denseStrides(of.sizes, order));
    return type;
  }

  // ---- the end

  void returnGradients() {
    std::vector<ir::Operand> operands = return_->operands();
    for (const ir::Value *value : graph_.declarations()) {
      if (!value->type.grad || value->kind == ir::Value::Kind::Cotangent)
        continue;
      auto gradient = cotangents_.find(value);
      operands.push_back(gradient == cotangents_.end() ? ir::Operand::none()
                                                       : ir::Operand::of(gradient->second));
    }
    return_->setOperands(std::move(operands));
  }

  ir::Graph &graph_;
  const LoweredForward &forward_;
  const NeedsGrad &needsGrad_;
  ir::PieceSource &pieces_;
  const ir::OpCatalog *catalog_;
  std::map<std::string, int64_t> &statistics_;
  Splicer &splicer_;
  const ir::AliasInfo aliases_;                                              // of the forward
  std::unordered_map<const ir::Value *, LoweredForward::Write> overwritten_; // by where the memory begins
  ir::Op *return_ = nullptr, *end_ = nullptr;                     // where the backward goes: before the end
  std::vector<ir::Attr> outputs_;                                 // one an output: whether it has a cotangent
  std::unordered_map<const ir::Value *, ir::Value *> cotangents_; // looked up only, never walked
};

} // namespace

void appendBackward(ir::Graph &graph, const LoweredForward &forward, PassContext &context,
                    ir::PieceSource &pieces, Splicer &splicer) {
  ReverseSweep(graph, forward, context, pieces, splicer).run();
}

} // namespace graphopt::passes
