// Runs a plan: everything that can be decided once is decided in the constructor, so a step is a few moves
// onto the stack and one dispatcher call.
//
// Where no tensor of the run can get history (grad mode off, or no input that requires grad) the autograd
// layers are left out: they would record nothing, and cost more than many kernels. Writes to the caller's
// tensors and returned views always go through them: version counters and view relations are visible to the
// caller. So do two kinds of operators that would round differently without:
//   composite ones: below autograd they take other ways down (a fused kernel for a 3-D linear, say)
//   views: a view of a parameter says requires_grad under no_grad too, and matmul's folding asks for that
#include "runtime/execute.h"

#include "graphopt/error.h"
#include "runtime/ambient.h"
#include "runtime/call.h"
#include "runtime/content.h"
#include "runtime/device.h"
#include "runtime/plan_io.h"

#include <ATen/Functions.h>
#include <algorithm>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

namespace graphopt::runtime {
namespace {
using c10::IValue;

ir::Attr toAttr(const Scalar &scalar) {
  switch (scalar.kind) {
  case Scalar::Kind::None:
    return {};
  case Scalar::Kind::Bool:
    return ir::Attr::boolean(scalar.boolean);
  case Scalar::Kind::Int:
    return ir::Attr::integer(scalar.integer);
  case Scalar::Kind::Float:
    return ir::Attr::real(scalar.real);
  case Scalar::Kind::Complex:
    return ir::Attr::complex(scalar.real, scalar.imaginary);
  case Scalar::Kind::String:
    return ir::Attr::string(scalar.text);
  case Scalar::Kind::Word:
    return ir::Attr::word(scalar.text);
  case Scalar::Kind::List: {
    std::vector<ir::Attr> items;
    for (const Scalar &item : scalar.items)
      items.push_back(toAttr(item));
    return ir::Attr::list(std::move(items));
  }
  }
  return {};
}

struct PreparedArgument {
  enum class Kind : uint8_t { Constant, Slot, LastUse, TensorList, OptionalTensorList };
  Kind kind = Kind::Constant;
  int slot = -1;
  IValue constant;
  std::vector<int> slots;
};

struct PreparedCall {
  const Operator *op;
  std::vector<PreparedArgument> arguments;
  std::vector<int> results;
  std::vector<int> release; // those that no argument moves out
  uint32_t ambient = 0;
  bool throughAutograd = false;
  bool one = false; // one result that is no list
};

using PreparedStep = std::variant<PreparedCall, WritebackStep>;

/// Turns the data of one step into what the stack takes.
class Preparer {
public:
  explicit Preparer(const CallStep &step) : step_(step), op_(requireOperator(step.op)) {}

  PreparedCall prepare() {
    size_t wanted = op_.info.args.size();
    if (step_.arguments.size() != wanted)
      userError(fmt::format("this plan cannot run: '{}' op has {} arguments, expected {}; compile again",
                            step_.op, step_.arguments.size(), wanted));
    PreparedCall call;
    call.op = &op_;
    for (size_t i = 0; i < wanted; ++i)
      call.arguments.push_back(argument(i));
    call.results = step_.results;
    call.release = step_.release;
    call.ambient = step_.ambient;
    call.throughAutograd = step_.returned || op_.info.composite || isView();
    call.one = op_.info.returns.size() == 1 && !op_.info.returns[0].isTensorList && step_.results.size() == 1;
    moveLastUses(call);
    return call;
  }

private:
  PreparedArgument argument(size_t i) const {
    const PlanArgument &given = step_.arguments[i];
    const ir::ArgInfo &info = op_.info.args[i];
    switch (given.kind) {
    case PlanArgument::Kind::Scalar:
      return literal(given, info, i);
    case PlanArgument::Kind::Number:
      return number(given, info);
    case PlanArgument::Kind::Tensor:
      return tensor(given, info);
    case PlanArgument::Kind::TensorList:
      return list(given, info);
    }
    return {};
  }

  bool isView() const {
    return std::any_of(op_.info.returns.begin(), op_.info.returns.end(),
                       [](const ir::ReturnInfo &result) { return !result.aliasSet.empty(); });
  }

  PreparedArgument constant(IValue value) const {
    PreparedArgument argument;
    argument.constant = std::move(value);
    return argument;
  }

  PreparedArgument literal(const PlanArgument &given, const ir::ArgInfo &info, size_t i) const {
    bool missing = info.role != ir::ArgInfo::Role::Attr && given.scalar.kind == Scalar::Kind::None;
    if (!missing)
      return constant(toIValue(toAttr(given.scalar), op_.schema().arguments()[i], step_.op));
    if (info.optional)
      return constant(IValue());
    if (info.role == ir::ArgInfo::Role::Tensor)
      return constant(at::Tensor());
    return constant(c10::List<at::Tensor>());
  }

  PreparedArgument number(const PlanArgument &given, const ir::ArgInfo &info) const {
    auto scalar = toScalar(toAttr(given.scalar));
    if (!scalar || info.role != ir::ArgInfo::Role::Tensor)
      misfit(info);
    auto dtype = given.dtype.empty() ? std::nullopt : ir::parseDType(given.dtype);
    return constant(numberTensor(*scalar, dtype));
  }

  PreparedArgument tensor(const PlanArgument &given, const ir::ArgInfo &info) const {
    if (info.role != ir::ArgInfo::Role::Tensor)
      misfit(info);
    int slot = given.slots.at(0);
    if (slot == -1)
      return constant(info.optional ? IValue() : IValue(at::Tensor()));
    PreparedArgument argument;
    argument.kind = PreparedArgument::Kind::Slot;
    argument.slot = slot;
    return argument;
  }

  PreparedArgument list(const PlanArgument &given, const ir::ArgInfo &info) const {
    if (info.role != ir::ArgInfo::Role::TensorList)
      misfit(info);
    PreparedArgument argument;
    bool optional = info.type.starts_with("Tensor?[");
    argument.kind =
        optional ? PreparedArgument::Kind::OptionalTensorList : PreparedArgument::Kind::TensorList;
    argument.slots = given.slots;
    return argument;
  }

  [[noreturn]] void misfit(const ir::ArgInfo &info) const {
    userError(fmt::format(
        "this plan cannot run: '{}' op argument '{}' is not what its schema wants ({}); compile again",
        step_.op, info.name, info.type));
  }

  /// A slot whose last use is a plain argument of this step is moved onto the stack, not copied and dropped
  /// afterwards.
  static void moveLastUses(PreparedCall &call) {
    std::erase_if(call.release, [&](int slot) {
      PreparedArgument *last = lastPlainUse(call, slot);
      if (last)
        last->kind = PreparedArgument::Kind::LastUse;
      return last != nullptr;
    });
  }

  /// nullptr when a list after it, or only a list, uses the slot.
  static PreparedArgument *lastPlainUse(PreparedCall &call, int slot) {
    PreparedArgument *last = nullptr;
    for (PreparedArgument &argument : call.arguments) {
      if (argument.slot == slot)
        last = &argument;
      else if (std::find(argument.slots.begin(), argument.slots.end(), slot) != argument.slots.end())
        last = nullptr;
    }
    return last;
  }

  const CallStep &step_;
  const Operator &op_;
};

at::Tensor constantTensor(const PlanConstant &constant) {
  ir::Type type =
      ir::Type::tensor(*ir::parseDType(constant.dtype), {constant.sizes.begin(), constant.sizes.end()});
  if (constant.strides)
    type.setStrides({constant.strides->begin(), constant.strides->end()});
  type.device = ir::parseDevice(constant.device);
  type.wrapped = constant.wrapped;
  type.conj = constant.conj;
  type.neg = constant.neg;
  requireDevice(*type.device);
  return tensorFromContent(type, toAttr(constant.content));
}

bool anyHistory(const std::vector<at::Tensor> &inputs) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const at::Tensor &t) { return t.defined() && t.requires_grad(); });
}

} // namespace

struct Executor::Prepared {
  Plan plan;
  c10::DeviceType device = c10::kCPU;
  std::vector<std::pair<int, at::Tensor>> constants;
  std::vector<PreparedStep> steps;
  bool makesHistory = false; // a step may ask for gradients itself
};

namespace {

/// One run: the slots, the stack, the thread's state.
class Run {
public:
  Run(int slots, c10::DeviceType device, const std::vector<Ambient> &ambients, bool history)
      : slots_(static_cast<size_t>(slots)), scope_(device), ambients_(ambients), history_(history) {
    stack_.reserve(16);
  }

  IValue &slot(int index) { return slots_[static_cast<size_t>(index)]; }

  void operator()(const PreparedCall &call) {
    const Ambient &ambient = ambients_[call.ambient];
    bool below = !call.throughAutograd && !(ambient.grad && history_);
    if (call.ambient != ambient_ || below != below_)
      switchTo(call.ambient, below);
    for (const PreparedArgument &argument : call.arguments)
      push(argument, call);
    call.op->handle.callBoxed(stack_);
    keepResults(call);
    for (int index : call.release)
      slot(index) = IValue();
  }

  void operator()(const WritebackStep &step) {
    at::Tensor target = slot(step.target).toTensor();
    at::Tensor source = asTensor(slot(step.source));
    switchTo(ambient_, false); // the caller's version counters have to see the write
    c10::InferenceMode inference(target.is_inference());
    c10::AutoGradMode grad(false);
    target.copy_(source);
    for (int index : step.release)
      slot(index) = IValue();
  }

private:
  void switchTo(uint32_t ambient, bool below) {
    if (ambient == ambient_ && ambient != kNone)
      scope_.setBelowAutograd(below);
    else
      scope_.enter(ambient == kNone ? Ambient{} : ambients_[ambient], below);
    ambient_ = ambient;
    below_ = below;
  }

  void push(const PreparedArgument &argument, const PreparedCall &call) {
    switch (argument.kind) {
    case PreparedArgument::Kind::Constant:
      stack_.push_back(argument.constant);
      return;
    case PreparedArgument::Kind::Slot:
      pushTensor(slot(argument.slot));
      return;
    case PreparedArgument::Kind::LastUse:
      pushTensor(std::move(slot(argument.slot)));
      return;
    case PreparedArgument::Kind::TensorList: {
      c10::List<at::Tensor> list;
      list.reserve(argument.slots.size());
      for (int index : argument.slots)
        list.push_back(index == -1 ? at::Tensor() : asTensor(slot(index)));
      stack_.emplace_back(std::move(list));
      return;
    }
    case PreparedArgument::Kind::OptionalTensorList: {
      c10::List<std::optional<at::Tensor>> list;
      for (int index : argument.slots)
        list.push_back(index == -1 ? std::nullopt : std::optional(asTensor(slot(index))));
      stack_.emplace_back(std::move(list));
      return;
    }
    }
    GO_ASSERT(false, "argument of " + call.op->info.name);
  }

  template <class Value> void pushTensor(Value &&value) {
    if (value.isTensor())
      stack_.push_back(std::forward<Value>(value));
    else
      stack_.emplace_back(asTensor(value));
  }

  void keepResults(const PreparedCall &call) {
    if (call.one) {
      if (call.results[0] != -1)
        slot(call.results[0]) = std::move(stack_.back());
      stack_.clear();
      return;
    }
    std::vector<IValue> results = takeResults(*call.op, stack_, call.results.size());
    for (size_t i = 0; i < results.size(); ++i)
      if (call.results[i] != -1)
        slot(call.results[i]) = std::move(results[i]);
  }

  static constexpr uint32_t kNone = ~0u;
  std::vector<IValue> slots_;
  torch::jit::Stack stack_;
  AmbientScope scope_;
  const std::vector<Ambient> &ambients_;
  bool history_;
  uint32_t ambient_ = kNone;
  bool below_ = false;
};

} // namespace

Executor::Executor(Plan plan) {
  validate(plan);
  auto prepared = std::make_unique<Prepared>();
  prepared->device = requireDevice(*ir::parseDevice(plan.device)).type();
  for (const PlanConstant &constant : plan.constants)
    prepared->constants.emplace_back(constant.slot, constantTensor(constant));
  for (const Step &step : plan.steps) {
    const auto *call = std::get_if<CallStep>(&step);
    if (!call) {
      prepared->steps.emplace_back(std::get<WritebackStep>(step));
      continue;
    }
    prepared->steps.emplace_back(Preparer(*call).prepare());
    prepared->makesHistory |= call->op.starts_with("aten.requires_grad_");
  }
  prepared->plan = std::move(plan);
  prepared_ = std::move(prepared);
}

Executor::~Executor() = default;
Executor::Executor(Executor &&) noexcept = default;
Executor &Executor::operator=(Executor &&) noexcept = default;

const Plan &Executor::plan() const { return prepared_->plan; }

std::vector<at::Tensor> Executor::run(const std::vector<at::Tensor> &inputs) const {
  const Plan &plan = prepared_->plan;
  if (inputs.size() != plan.inputs.size())
    userError(
        fmt::format("plan @{} takes {} tensors, given {}", plan.name, plan.inputs.size(), inputs.size()));
  SettingsScope settings(plan.settings);
  Run run(plan.slots, prepared_->device, plan.ambients, prepared_->makesHistory || anyHistory(inputs));
  for (size_t i = 0; i < inputs.size(); ++i)
    run.slot(plan.inputs[i].slot) = inputs[i];
  for (const auto &[slot, tensor] : prepared_->constants)
    run.slot(slot) = tensor;
  for (const PreparedStep &step : prepared_->steps)
    std::visit(run, step);
  std::vector<at::Tensor> outputs;
  outputs.reserve(plan.outputs.size());
  for (int slot : plan.outputs)
    outputs.push_back(slot == -1 ? at::Tensor() : asTensor(run.slot(slot)));
  return outputs;
}

} // namespace graphopt::runtime
