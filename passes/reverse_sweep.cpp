// Autograd's engine runs nodes in descending order of their making, and adds gradients of one tensor in the
// order in which they arrive. Reverse program order is that order; and a piece that is given the gradient so
// far adds to it itself, as ((so far + a) + b), which is not so far + (a + b) in floating point.
#include "passes/reverse_sweep.h"

#include "ir/alias.h"

#include <algorithm>
#include <fmt/format.h>
#include <graphopt/error.h>
#include <unordered_set>

namespace graphopt::passes {
namespace {

class ReverseSweep {
public:
  ReverseSweep(ir::Graph &graph, const NeedsGrad &needsGrad, ir::PieceSource &pieces, Splicer &splicer)
      : graph_(graph), needsGrad_(needsGrad), pieces_(pieces), splicer_(splicer) {}

  void run(const std::vector<Spliced> &operators) {
    return_ = graph_.returnOp();
    end_ = firstOfTheEnd();
    const size_t outputs = return_->operands().size();
    declareCotangents();
    for (auto op = operators.rbegin(); op != operators.rend(); ++op)
      visit(*op);
    returnGradients();
    graph_.settings.push_back({"outputs", ir::Attr::integer(static_cast<int64_t>(outputs))});
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
    std::vector<ir::Operand> operands = return_->operands();
    for (const ir::Operand &operand : operands) {
      if (!operand.isValue() || !operand.value->type.isTensor())
        continue;
      ir::Value *output = newest(operand);
      if (!needs(output))
        continue;
      ir::Type type = operand.value->type;
      type.grad = false;
      const std::string name = graph_.freshName("d." + operand.value->name);
      addTo(output, graph_.declare(ir::Value::Kind::Cotangent, name, std::move(type)));
    }
  }

  /// A tensor of the caller's that was written is returned as it is after the write-back.
  ir::Value *newest(const ir::Operand &operand) {
    if (operand.mark != ir::Mark::Alias)
      return operand.value;
    const ir::AliasInfo aliases(graph_);
    const ir::Value *base = aliases.base(operand.value);
    for (const auto &op : graph_.body()) {
      if (op->kind != ir::Op::Kind::Writeback || op->operands()[0].value != base)
        continue;
      if (base != operand.value)
        userError(fmt::format("output '%{}' is a view of '%{}', which the program writes: its gradient has no "
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
    ir::Op *sum = graph_.insertBefore(end_, ir::Op::Kind::Call, "aten.add.Tensor",
                                      {ir::Operand::of(known), ir::Operand::of(cotangent)}, {},
                                      {{"d", known->type}});
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
      const bool isRoot = result && op.requiresGrad[i] && !has(op.unit.operands, result) &&
                          seen.insert(result).second;
      cotangents.push_back(isRoot ? typeOfCotangent(result) : std::nullopt);
    }
    if (std::none_of(cotangents.begin(), cotangents.end(), [](const auto &type) { return type.has_value(); }))
      return;
    for (const ir::Value *operand : op.unit.operands)
      soFar.push_back(needs(operand) ? typeOfCotangent(operand) : std::nullopt);
    const ir::BackwardPiece &piece = pieces_.backward(op.unit.graph, cotangents, soFar);
    if (!piece.opaque.empty())
      userError(fmt::format("the backward of '{}' cannot be taken apart: {}", op.name, piece.opaque));
    takeGradients(op, piece.graph, splicedMap(op, piece.graph));
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
      map[input] = value;
    }
    splicer_.splice(piece, end_, op.state, map);
    return map;
  }

  void takeGradients(const Spliced &op, const ir::Graph &piece, const ir::ValueMap &map) {
    const std::vector<ir::Operand> &returned = piece.returnOp()->operands();
    for (size_t i = 0; i < returned.size(); ++i)
      if (returned[i].isValue())
        cotangents_[op.unit.operands[i]] = map.at(returned[i].value);
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
  const NeedsGrad &needsGrad_;
  ir::PieceSource &pieces_;
  Splicer &splicer_;
  ir::Op *return_ = nullptr, *end_ = nullptr; // where the backward goes: before the end
  std::unordered_map<const ir::Value *, ir::Value *> cotangents_; // looked up only, never walked
};

} // namespace

void appendBackward(ir::Graph &graph, const std::vector<Spliced> &operators, const NeedsGrad &needsGrad,
                    ir::PieceSource &pieces, Splicer &splicer) {
  ReverseSweep(graph, needsGrad, pieces, splicer).run(operators);
}

} // namespace graphopt::passes
