// Graph to plan: operators become steps over slots. When each slot is released is found afterwards
// (plan_releases.h).
#include "runtime/execute.h"

#include "graphopt/error.h"
#include "ir/effects.h"
#include "ir/op_table.h"
#include "runtime/ambient.h"
#include "runtime/call.h"
#include "runtime/plan_io.h"
#include "runtime/plan_releases.h"
#include "runtime/plan_scalar.h"
#include "runtime/returned_views.h"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>

namespace graphopt::runtime {
namespace {
using ir::Attr;
using ir::Op;
using ir::Operand;
using ir::Value;

std::vector<int64_t> fixed(const std::vector<ir::Dim> &dims, const Value &value) {
  std::vector<int64_t> values;
  for (const ir::Dim &dim : dims) {
    if (!dim.isConstant())
      userError(fmt::format("'%{}' has the size {}: a plan needs fixed sizes", value.name, toString(dim)));
    values.push_back(dim.value());
  }
  return values;
}

class PlanBuilder {
public:
  explicit PlanBuilder(const ir::Graph &graph) : graph_(graph) {}

  Plan build() {
    checkGraph();
    plan_.name = graph_.name;
    plan_.device = toString(graph_.device);
    plan_.settings = settingsOf(graph_);
    for (const ir::Sym &sym : graph_.syms) {
      plan_.syms.push_back(sym.name);
      anySizes_.push_back({sym.name, 2});
    }
    returns_ = planReturns(graph_);
    declare(Value::Kind::Input, PlanInput::Kind::Argument);
    declare(Value::Kind::Cotangent, PlanInput::Kind::Argument);
    for (Value::Kind kind : {Value::Kind::Param, Value::Kind::Buffer, Value::Kind::Outside})
      declare(kind, PlanInput::Kind::State);
    for (Value::Kind kind : {Value::Kind::Const, Value::Kind::HostVal})
      declareConstants(kind);
    addBlock(graph_.body());
    addReleases(plan_);
    validate(plan_);
    return std::move(plan_);
  }

private:
  void checkGraph() const {
    if (graph_.stage == ir::Stage::Captured && graph_.form == ir::Form::Raw)
      userError(
          fmt::format("graph @{} is in the raw form: run functionalize before making a plan", graph_.name));
    if (!graph_.returnOp())
      userError(fmt::format("graph @{} has no return", graph_.name));
  }

  // ---- declarations

  int newSlot(const Value *value) {
    slots_[value] = plan_.slots;
    return plan_.slots++;
  }

  void declare(Value::Kind kind, PlanInput::Kind inputKind) {
    for (const Value *value : graph_.declared(kind))
      if (value->hasUses())
        plan_.inputs.push_back({inputKind, value->name, newSlot(value)});
  }

  void declareConstants(Value::Kind kind) {
    for (const Value *value : graph_.declared(kind)) {
      if (!value->hasUses())
        continue;
      if (value->content.isNone())
        plan_.inputs.push_back({PlanInput::Kind::Constant, value->name, newSlot(value)});
      else
        plan_.constants.push_back(constantOf(*value));
    }
  }

  PlanConstant constantOf(const Value &value) {
    const ir::Type &type = value.type;
    PlanConstant constant;
    constant.slot = newSlot(&value);
    ir::DType dtype = type.dtype;
    if (!type.isTensor())
      dtype = type.kind == ir::Type::Kind::Float  ? at::kDouble
              : type.kind == ir::Type::Kind::Bool ? at::kBool
                                                  : at::kLong;
    constant.dtype = ir::dtypeName(dtype);
    constant.sizes = fixed(type.sizes, value);
    if (type.strides)
      constant.strides = fixed(*type.strides, value);
    constant.device = toString(type.isTensor() ? type.device.value_or(graph_.device) : ir::Device{});
    constant.wrapped = type.wrapped;
    constant.conj = type.conj;
    constant.neg = type.neg;
    constant.content = toScalarData(value.content, "constant '%" + value.name + "'");
    return constant;
  }

  // ---- steps

  void addBlock(const ir::Block &block) {
    for (const auto &op : block)
      addOp(*op);
  }

  void addOp(const Op &op) {
    switch (op.kind) {
    case Op::Kind::Call:
      addCall(op, {}, false);
      if (graph_.stage != ir::Stage::Captured && graph_.isOpaque(op) && !isInVjp_)
        dropHistory(op);
      return;
    case Op::Kind::Group:
    case Op::Kind::Update:
      addBody(op);
      return;
    case Op::Kind::Vjp:
      addVjp(op);
      return;
    case Op::Kind::Redraw:
      keepingGenerators(op, [&] { addBody(op); });
      return;
    case Op::Kind::Writeback:
      addWriteback(op);
      return;
    case Op::Kind::Return:
      addReturn(op);
      return;
    case Op::Kind::Yield:
      return; // read by the owner
    case Op::Kind::Border:
      userError(fmt::format(
          "graph @{} has a border (#{} {}): the host reads a value there, and a plan cannot stop for it",
          graph_.name, op.number, op.name));
    }
  }

  /// The results of a body are the values it yields: no step of their own.
  void addBody(const Op &op) {
    addBlock(*op.body());
    const Op *yield = op.body()->terminator();
    if (!yield || yield->operands().size() != op.results().size())
      userError(fmt::format("the body of '{}' does not yield its {} results", op.name, op.results().size()));
    for (size_t i = 0; i < op.results().size(); ++i)
      slots_[op.result(i)] = slotOf(yield->operands()[i]);
  }

  /// The steps of a body that begins with states of generators, which are afterwards as they were.
  template <class F> void keepingGenerators(const Op &op, F &&addSteps) {
    RngStep begin{{}, op.kind == Op::Kind::Redraw};
    for (const ir::Device &device : ir::redrawsOn(op))
      begin.devices.push_back(toString(device));
    const bool draws = !begin.devices.empty();
    if (draws)
      plan_.steps.emplace_back(std::move(begin));
    addSteps();
    if (draws)
      plan_.steps.emplace_back(RngStep{});
  }

  /// The body runs with autograd, on leaves in the places of the values whose gradients are asked for.
  void addVjp(const Op &op) {
    const std::vector<Operand> &lists = op.body()->terminator()->operands();
    const std::vector<Operand> &wrt = lists.at(2).items;
    LeavesStep leaves;
    leaves.sources = slotsOf(wrt);
    for (const Operand &operand : wrt)
      leaves.results.push_back(newSlot(operand.value));
    GradientsStep gradients;
    gradients.leaves = leaves.results;
    const std::vector<int> sources = leaves.sources;
    plan_.steps.emplace_back(std::move(leaves));
    isInVjp_ = true;
    keepingGenerators(op, [&] { addBlock(*op.body()); }); // the gradients draw as those of now
    isInVjp_ = false;
    gradients.outputs = slotsOf(lists[0].items);
    gradients.cotangents = slotsOf(lists[1].items);
    for (size_t i = 0; i < wrt.size(); ++i)
      slots_[wrt[i].value] = sources[i];
    if (const Attr *number = op.attr("operator"))
      gradients.number = number->asInt();
    for (const Value *result : op.results()) {
      const Attr expected = expectedGradient(op, *result);
      gradients.strides.push_back(literalArgument(expected).scalar);
      gradients.results.push_back(newSlot(result));
    }
    plan_.steps.emplace_back(std::move(gradients));
  }

  static Attr expectedGradient(const Op &vjp, const Value &gradient) {
    if (const Attr *undefined = vjp.attr("undefined"))
      for (const Attr &number : undefined->items())
        if (number.asInt() == static_cast<int64_t>(gradient.resultIndex))
          return Attr::word("undefined");
    const bool isRead =
        std::ranges::any_of(gradient.users(), [](const Op *user) { return user->kind != Op::Kind::Return; });
    return isRead ? dimList(gradient.type.stridesOrContiguous()) : Attr();
  }

  std::vector<int> slotsOf(const std::vector<Operand> &operands) const {
    std::vector<int> slots;
    for (const Operand &operand : operands)
      slots.push_back(slotOf(operand));
    return slots;
  }

  /// An opaque operator runs with autograd; what follows it in the graph is none of autograd's business.
  void dropHistory(const Op &op) {
    Ambient below;
    below.below = true;
    for (const Value *result : op.results()) {
      if (!result->type.isTensor() ||
          !(ir::isFloating(result->type.dtype) || ir::isComplex(result->type.dtype)))
        continue;
      CallStep detach;
      detach.op = "aten.detach";
      detach.ambient = stateIndex(below);
      detach.arguments = {{PlanArgument::Kind::Tensor, {}, "", {slotOf(*result)}}};
      detach.results = {newSlot(result)};
      plan_.steps.emplace_back(std::move(detach));
    }
  }

  /// `renamed` puts other slots in the place of values: how a view is made again on another base.
  std::vector<int> addCall(const Op &op, const std::unordered_map<const Value *, int> &renamed,
                           bool returned) {
    Call call = matchCall(op);
    CallStep step;
    step.op = call.op->info.name;
    step.ambient = ambientIndex(op);
    step.returned = returned;
    for (size_t i = 0; i < call.arguments.size(); ++i)
      step.arguments.push_back(argument(call, i, renamed));
    for (const Value *result : op.results())
      step.results.push_back(returned ? plan_.slots++ : newSlot(result));
    std::vector<int> results = step.results;
    plan_.steps.emplace_back(std::move(step));
    if (ir::findPrim(op.name) && !liesAsTyped(op, call)) {
      results = {addLayout(results.at(0), op.result()->type)};
      slots_[op.result()] = results.at(0);
    }
    return results;
  }

  /// Whether a prim's reference leaves a tensor of its own with the strides that the text says.
  static bool liesAsTyped(const Op &op, const Call &call) {
    bool isContiguous = !op.result()->type.strides;
    op.forEachValue([&](const Operand &operand) { isContiguous &= !operand.value->type.strides; });
    return isContiguous && !call.copyResult;
  }

  /// A copy laid out as the type says. Expanded dims stay as the reference made them.
  int addLayout(int slot, const ir::Type &type) {
    if (!type.strides)
      return addClone(slot, "contiguous");
    for (size_t i = 0; i < type.rank(); ++i)
      if ((*type.strides)[i] == ir::Dim(0) && type.sizes[i] != ir::Dim(1))
        return slot;
    CallStep empty;
    empty.op = "aten.empty_strided";
    empty.ambient = stateIndex(Ambient{});
    const std::string device = toString(type.device.value_or(graph_.device));
    for (const Attr &attr :
         {dimList(type.sizes), dimList(*type.strides), Attr::word(std::string(ir::dtypeName(type.dtype))),
          Attr(), Attr::word(device), Attr()})
      empty.arguments.push_back(literalArgument(attr));
    empty.results = {plan_.slots++};
    plan_.steps.emplace_back(empty);
    CallStep copy;
    copy.op = "aten.copy_";
    copy.ambient = empty.ambient;
    copy.arguments = {{PlanArgument::Kind::Tensor, {}, "", {empty.results[0]}},
                      {PlanArgument::Kind::Tensor, {}, "", {slot}},
                      literalArgument(Attr::boolean(false))};
    plan_.steps.emplace_back(copy);
    return empty.results[0];
  }

  static PlanArgument literalArgument(const Attr &attr) {
    PlanArgument argument;
    argument.scalar = toScalarData(attr, "the layout of a prim");
    return argument;
  }

  static Attr dimList(const std::vector<ir::Dim> &dims) {
    std::vector<Attr> items;
    for (const ir::Dim &dim : dims)
      items.push_back(Attr::integer(dim));
    return Attr::list(std::move(items));
  }

  int addClone(int slot, const std::string &format) {
    CallStep step;
    step.op = "aten.clone";
    step.ambient = stateIndex(Ambient{});
    step.arguments = {{PlanArgument::Kind::Tensor, {}, "", {slot}}, {}};
    step.arguments[1].scalar.kind = Scalar::Kind::Word;
    step.arguments[1].scalar.text = format;
    step.results = {plan_.slots++};
    plan_.steps.emplace_back(step);
    return step.results[0];
  }

  PlanArgument argument(const Call &call, size_t i, const std::unordered_map<const Value *, int> &renamed) {
    const CallArgument &given = call.arguments[i];
    const ir::ArgInfo &info = call.op->info.args[i];
    std::string where = fmt::format("'{}' op attribute '{}'", call.op->info.name, info.name);
    PlanArgument argument;
    if (given.kind == CallArgument::Kind::Literal) {
      argument.scalar = toScalarData(given.literal, where);
      toIValue(given.literal, call.op->schema().arguments()[i], call.op->info.name,
               anySizes_); // raises when it does not fit
    } else if (given.operand.kind == Operand::Kind::Literal) {
      argument.kind = PlanArgument::Kind::Number;
      argument.scalar = toScalarData(given.operand.literal, where);
      argument.dtype = given.dtype ? ir::dtypeName(*given.dtype) : "";
    } else if (info.role == ir::ArgInfo::Role::Tensor) {
      argument.kind = PlanArgument::Kind::Tensor;
      argument.slots = {slotOf(given.operand, renamed)};
    } else if (given.operand.kind == Operand::Kind::List) {
      argument.kind = PlanArgument::Kind::TensorList;
      for (const Operand &item : given.operand.items)
        argument.slots.push_back(slotOf(item, renamed));
    }
    return argument;
  }

  int slotOf(const Operand &operand, const std::unordered_map<const Value *, int> &renamed = {}) const {
    if (operand.kind == Operand::Kind::None)
      return -1;
    if (operand.kind != Operand::Kind::Value)
      userError(fmt::format("graph @{} has a literal where a plan needs a value", graph_.name));
    if (auto it = renamed.find(operand.value); it != renamed.end())
      return it->second;
    return slotOf(*operand.value);
  }

  int slotOf(const Value &value) const {
    auto it = slots_.find(&value);
    GO_ASSERT(it != slots_.end(), "value used before its definition: " + value.name);
    return it->second;
  }

  uint32_t stateIndex(const Ambient &ambient) {
    auto it = std::find(plan_.ambients.begin(), plan_.ambients.end(), ambient);
    if (it == plan_.ambients.end())
      it = plan_.ambients.insert(it, ambient);
    return static_cast<uint32_t>(it - plan_.ambients.begin());
  }
  uint32_t ambientIndex(const Op &op) { return stateIndex(ambientOf(graph_, graph_.states.at(op.state))); }

  // ---- the end of a graph

  void addWriteback(const Op &op) {
    copySources();
    const Value *source = op.operands().at(1).value;
    auto copy = copies_.find(source);
    WritebackStep step;
    step.target = slotOf(op.operands().at(0));
    step.source = copy == copies_.end() ? slotOf(*source) : copy->second;
    plan_.steps.emplace_back(std::move(step));
  }

  /// Before the first commit: sources that share memory with a declared value, which a commit may change.
  void copySources() {
    if (std::exchange(copied_, true))
      return;
    for (const Value *value : returns_.copyFirst)
      copies_[value] = addClone(slotOf(*value), "preserve");
  }

  void addReturn(const Op &op) {
    for (size_t i = 0; i < op.operands().size(); ++i) {
      auto view = returns_.views.find(i);
      plan_.outputs.push_back(view == returns_.views.end() ? returnedSlot(op.operands()[i])
                                                           : addView(view->second));
    }
  }

  /// Constants belong to the plan: the caller gets a copy, made for each run.
  int rootSlot(const Value *value) {
    int slot = slotOf(*value);
    bool ours = value->kind == Value::Kind::Const || value->kind == Value::Kind::HostVal;
    if (!ours)
      return slot;
    auto [it, fresh] = returnedConstants_.try_emplace(value, -1);
    if (fresh)
      it->second = addClone(slot, "preserve");
    return it->second;
  }

  int returnedSlot(const Operand &operand) {
    return operand.kind == Operand::Kind::Value ? rootSlot(operand.value) : slotOf(operand);
  }

  int addView(const ReturnedView &view) {
    const Value *current = view.base;
    int slot = rootSlot(view.root);
    for (const ir::ViewStep &step : view.chain) {
      slot = addCall(*step.op, {{current, slot}}, true).at(step.result);
      current = step.op->result(step.result);
    }
    return slot;
  }

  const ir::Graph &graph_;
  Plan plan_;
  SymValues anySizes_; // to see whether symbolic literals are of the right kind
  Returns returns_;
  std::unordered_map<const Value *, int> slots_;
  std::unordered_map<const Value *, int> copies_;
  std::unordered_map<const Value *, int> returnedConstants_;
  bool copied_ = false, isInVjp_ = false;
};

} // namespace

Plan buildPlan(const ir::Graph &graph) { return PlanBuilder(graph).build(); }

} // namespace graphopt::runtime
