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
#include "runtime/plan_scalar.h"
#include "runtime/prepare.h"
#include "runtime/rng.h"
#include "runtime/vjp.h"

#include <ATen/Functions.h>
#include <algorithm>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

namespace graphopt::runtime {
namespace {
using c10::IValue;

struct PreparedGradients : GradientsStep {
  std::vector<ir::Attr> layouts; // `strides` as literals
};
struct PreparedRng {
  std::vector<c10::Device> devices; ///< none: ends
  bool waits = false;
};
using PreparedStep = std::variant<PreparedCall, WritebackStep, LeavesStep, PreparedGradients, PreparedRng>;

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
  return tensorFromContent(type, toAttr(constant.content, {}));
}

bool leavesTensors(const Operator &op) {
  return std::all_of(op.info.returns.begin(), op.info.returns.end(),
                     [](const ir::ReturnInfo &result) { return result.isTensor || result.isTensorList; });
}

/// Steps that are no calls.
PreparedStep asPrepared(const Step &step, const std::vector<std::string> &syms) {
  if (const auto *leaves = std::get_if<LeavesStep>(&step))
    return *leaves;
  if (const auto *rng = std::get_if<RngStep>(&step)) {
    PreparedRng ready{{}, rng->waits};
    for (const std::string &device : rng->devices)
      ready.devices.push_back(requireDevice(*ir::parseDevice(device)));
    return ready;
  }
  const auto *gradients = std::get_if<GradientsStep>(&step);
  if (!gradients)
    return std::get<WritebackStep>(step);
  PreparedGradients ready{*gradients, {}};
  for (const Scalar &strides : gradients->strides)
    ready.layouts.push_back(toAttr(strides, syms));
  return ready;
}

/// The list of integers, or nothing for none.
std::optional<std::vector<int64_t>> integersOf(const ir::Attr &attr, const SymValues &syms) {
  if (!attr.isList())
    return std::nullopt;
  std::vector<int64_t> values;
  for (const ir::Attr &item : attr.items())
    values.push_back(item.isInt() ? ir::evaluate(item.asDim(), syms).value_or(0) : 0);
  return values;
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
  Run(int slots, c10::DeviceType device, const std::vector<Ambient> &ambients, const SymValues &syms,
      bool history, const GradientWatch &watch)
      : slots_(static_cast<size_t>(slots)), scope_(device), ambients_(ambients), syms_(syms),
        history_(history), watch_(watch) {
    stack_.reserve(16);
  }

  IValue &slot(int index) { return slots_[static_cast<size_t>(index)]; }

  void operator()(const PreparedCall &call) {
    const Ambient &ambient = ambients_[call.ambient];
    bool below = call.route == Route::Below || (call.route == Route::WithHistory && !history_);
    below &= !(ambient.grad && history_);
    if (call.ambient != ambient_ || below != below_)
      switchTo(call.ambient, below);
    if (call.typed)
      callTyped(call);
    else
      callBoxed(call);
    release(call.release);
  }

  void callTyped(const PreparedCall &call) {
    at::Tensor result = call.typed->run(slots_.data());
    if (call.results[0] != -1)
      slot(call.results[0]) = std::move(result);
  }

  void callBoxed(const PreparedCall &call) {
    for (const PreparedArgument &argument : call.arguments)
      push(argument, call);
    call.op->handle.callBoxed(stack_);
    keepResults(call);
  }

  void operator()(const WritebackStep &step) {
    at::Tensor target = slot(step.target).toTensor();
    at::Tensor source = asTensor(slot(step.source));
    switchTo(kNone, false); // the caller's version counters have to see the write
    c10::InferenceMode inference(target.is_inference());
    c10::AutoGradMode grad(false);
    target.copy_(source);
    release(step.release);
  }

  void operator()(const LeavesStep &step) {
    for (size_t i = 0; i < step.sources.size(); ++i)
      slot(step.results[i]) = leafOf(asTensor(slot(step.sources[i])));
    release(step.release);
  }

  void operator()(const PreparedGradients &step) {
    std::vector<at::Tensor> gradients =
        gradientsOf(tensorsOf(step.outputs), tensorsOf(step.cotangents), tensorsOf(step.leaves));
    for (size_t i = 0; i < gradients.size(); ++i) {
      const auto strides = integersOf(step.layouts[i], syms_);
      const bool isWatched = watch_ && !step.layouts[i].isNone();
      const bool isAsItComes = (isWatched && !watch_(step.number, i, gradients[i], strides)) || !strides;
      if (strides && !gradients[i].defined())
        gradients[i] = at::zeros_like(slot(step.leaves[i]).toTensor());
      if (step.results[i] != -1)
        slot(step.results[i]) = isAsItComes && (!strides || reaches(gradients[i], *strides))
                                    ? gradients[i]
                                    : laidOut(gradients[i], *strides);
    }
    release(step.release);
  }

  void operator()(const PreparedRng &step) {
    rng_.reset();
    if (!step.devices.empty())
      rng_.emplace(step.devices, step.waits ? RngScope::Others::Wait : RngScope::Others::GoOn);
  }

private:
  /// Whether steps that were made for these strides read nothing beyond the tensor's memory.
  static bool reaches(const at::Tensor &gradient, const std::vector<int64_t> &strides) {
    int64_t last = 0;
    for (int64_t dim = 0; dim < gradient.dim(); ++dim)
      last += (gradient.size(dim) - 1) * strides[static_cast<size_t>(dim)];
    return gradient.layout() == c10::kStrided && gradient.is_non_overlapping_and_dense() &&
           last < gradient.numel();
  }

  void release(const std::vector<int> &slots) {
    for (int index : slots)
      slot(index) = IValue();
  }

  std::vector<at::Tensor> tensorsOf(const std::vector<int> &slots) {
    std::vector<at::Tensor> tensors;
    for (int index : slots)
      tensors.push_back(index == -1 ? at::Tensor() : asTensor(slot(index)));
    return tensors;
  }

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
    case PreparedArgument::Kind::Symbolic:
      stack_.push_back(argument.make(syms_));
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
  const SymValues &syms_;
  bool history_;
  uint32_t ambient_ = kNone;
  bool below_ = false;
  std::optional<RngScope> rng_;
  const GradientWatch &watch_;
};

} // namespace

Executor::Executor(Plan plan) {
  validate(plan);
  auto prepared = std::make_unique<Prepared>();
  prepared->device = requireDevice(*ir::parseDevice(plan.device)).type();
  for (const PlanConstant &constant : plan.constants)
    prepared->constants.emplace_back(constant.slot, constantTensor(constant));
  std::vector<bool> holdsTensor(static_cast<size_t>(plan.slots), true);
  for (const Step &step : plan.steps) {
    const auto *call = std::get_if<CallStep>(&step);
    if (!call) {
      prepared->makesHistory |= std::holds_alternative<LeavesStep>(step);
      prepared->steps.push_back(asPrepared(step, plan.syms));
      continue;
    }
    PreparedCall ready = prepareCall(*call, holdsTensor, plan.syms);
    for (int slot : call->results)
      if (slot != -1)
        holdsTensor[static_cast<size_t>(slot)] = leavesTensors(*ready.op);
    prepared->steps.emplace_back(std::move(ready));
    prepared->makesHistory |= call->op.starts_with("aten.requires_grad_");
  }
  prepared->plan = std::move(plan);
  prepared_ = std::move(prepared);
}

Executor::~Executor() = default;
Executor::Executor(Executor &&) noexcept = default;
Executor &Executor::operator=(Executor &&) noexcept = default;

const Plan &Executor::plan() const { return prepared_->plan; }

std::vector<at::Tensor> Executor::run(const std::vector<at::Tensor> &inputs, const SymValues &syms,
                                      const GradientWatch &watch) const {
  const Plan &plan = prepared_->plan;
  for (const std::string &sym : plan.syms)
    if (std::ranges::none_of(syms, [&](const ir::SymValue &value) { return value.name == sym; }))
      userError(fmt::format("plan @{} needs a value for {}", plan.name, sym));
  if (inputs.size() != plan.inputs.size())
    userError(
        fmt::format("plan @{} takes {} tensors, given {}", plan.name, plan.inputs.size(), inputs.size()));
  SettingsScope settings(plan.settings);
  Run run(plan.slots, prepared_->device, plan.ambients, syms, prepared_->makesHistory || anyHistory(inputs),
          watch);
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
