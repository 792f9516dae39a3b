// Names and places are made the same for equal operators, so that equal text means an equal unit.
#include "passes/unit.h"

#include "ir/splice.h"

#include <algorithm>
#include <fmt/format.h>

namespace graphopt::passes {
namespace {

class UnitBuilder {
public:
  UnitBuilder(const ir::Graph &graph, const NeedsGrad &needsGrad) : from_(graph), needsGrad_(needsGrad) {
    unit_.graph = ir::Graph("unit");
    unit_.graph.device = graph.device;
    unit_.graph.settings = graph.settings;
    unit_.graph.syms = graph.syms;
  }

  Unit build(const ir::Op &op) {
    std::vector<ir::Operand> results;
    if (op.kind == ir::Op::Kind::Update)
      addBody(*op.body(), results);
    else
      addCall(op, results);
    unit_.graph.append(unit_.graph.body(), ir::Op::Kind::Return, "", std::move(results));
    return std::move(unit_);
  }

private:
  void addCall(const ir::Op &op, std::vector<ir::Operand> &results) {
    add(op, /*keepsMarks=*/false);
    for (const ir::Value *result : op.results())
      results.push_back(returned(result));
  }

  void addBody(const ir::Block &body, std::vector<ir::Operand> &results) {
    for (const auto &op : body)
      if (op->kind == ir::Op::Kind::Yield)
        for (const ir::Operand &operand : op->operands())
          results.push_back(returned(operand.value));
      else
        add(*op, /*keepsMarks=*/true);
  }

  ir::Operand returned(const ir::Value *value) {
    if (!value || value->type.kind == ir::Type::Kind::None)
      return ir::Operand::none();
    return ir::Operand::of(inside(value));
  }

  ir::Value *inside(const ir::Value *value) {
    auto known = map_.find(value);
    if (known != map_.end())
      return known->second;
    ir::Type type = value->type;
    auto grad = needsGrad_.find(value);
    type.grad = grad != needsGrad_.end() ? grad->second : value->isDeclared() && type.grad;
    ir::Value *input = unit_.graph.declare(ir::Value::Kind::Input, fmt::format("a{}", unit_.operands.size()),
                                           std::move(type));
    unit_.operands.push_back(const_cast<ir::Value *>(value));
    return map_[value] = input;
  }

  void add(const ir::Op &op, bool keepsMarks) {
    op.forEachValue([&](const ir::Operand &operand) { inside(operand.value); });
    std::vector<ir::Operand> operands = ir::mapped(op.operands(), map_);
    ir::Op *copy =
        unit_.graph.append(unit_.graph.body(), op.kind, op.name,
                           keepsMarks ? std::move(operands) : unmarked(std::move(operands)), op.attrs);
    for (const ir::Value *result : op.results())
      map_[result] = unit_.graph.addResult(copy, "r", result->type);
    copy->state = stateOf(op);
  }

  static std::vector<ir::Operand> unmarked(std::vector<ir::Operand> operands) {
    for (ir::Operand &operand : operands) {
      operand.mark = ir::Mark::None;
      operand.items = unmarked(std::move(operand.items));
    }
    return operands;
  }

  /// A probe keeps no casts between operators: what it would cast belongs to this one call.
  uint32_t stateOf(const ir::Op &op) {
    ir::OpState state;
    state.ambient = from_.states[op.state].ambient;
    const bool isCasting = std::ranges::any_of(state.ambient, [](const ir::NamedAttr &word) {
      return word.name == "amp" && !word.value.isWord("off");
    });
    std::erase_if(state.ambient, [](const ir::NamedAttr &word) { return word.name == "amp_cache"; });
    if (isCasting)
      state.ambient.push_back({"amp_cache", ir::Attr::word("off")});
    return unit_.graph.intern(state);
  }

  const ir::Graph &from_;
  const NeedsGrad &needsGrad_;
  Unit unit_;
  ir::ValueMap map_;
};

} // namespace

Unit unitOf(const ir::Graph &graph, const ir::Op &op, const NeedsGrad &needsGrad) {
  return UnitBuilder(graph, needsGrad).build(op);
}

} // namespace graphopt::passes
