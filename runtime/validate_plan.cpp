// A plan that passes here cannot make the executor touch a slot that does not exist or holds nothing.
#include "runtime/ambient.h"
#include "runtime/plan_io.h"

#include "graphopt/error.h"
#include "ir/dtype.h"

#include <fmt/format.h>

namespace graphopt::runtime {
namespace {

class Validator {
public:
  explicit Validator(const Plan &plan) : plan_(plan) {}

  void run() {
    // Each slot is filled by something, so a plan cannot ask for more of them than it has text.
    size_t fillers = plan_.inputs.size() + plan_.constants.size();
    for (const Step &step : plan_.steps)
      fillers += std::visit([](const auto &one) { return resultsOf(one); }, step);
    if (plan_.slots < 0 || static_cast<size_t>(plan_.slots) > fillers)
      fail(fmt::format("{} slots for {} values", plan_.slots, fillers));
    filled_.resize(static_cast<size_t>(plan_.slots));
    if (!ir::parseDevice(plan_.device))
      fail("device '" + plan_.device + "' is none");
    if (!isValid(plan_.settings))
      fail(fmt::format("settings deterministic '{}', matmul '{}'", plan_.settings.deterministic,
                       plan_.settings.matmul));
    for (const Ambient &ambient : plan_.ambients)
      if (ambient.autocast && !ir::parseDType(ambient.autocastDtype))
        fail("autocast dtype '" + ambient.autocastDtype + "' is none");
    for (const PlanInput &input : plan_.inputs)
      fill(input.slot);
    for (const PlanConstant &constant : plan_.constants)
      check(constant);
    for (const Step &step : plan_.steps)
      std::visit([&](const auto &one) { check(one); }, step);
    for (int slot : plan_.outputs)
      useOptional(slot);
    if (isRedrawing_)
      fail("a step begins to draw again, and none ends it");
  }

private:
  [[noreturn]] static void fail(const std::string &what) {
    userError("this plan cannot run: " + what + "; compile again");
  }

  template <class S> static size_t resultsOf(const S &step) { return step.results.size(); }
  static size_t resultsOf(const WritebackStep &) { return 0; }
  static size_t resultsOf(const RngStep &) { return 0; }

  size_t index(int slot) const {
    if (slot < 0 || slot >= plan_.slots)
      fail(fmt::format("slot {} is not within its {} slots", slot, plan_.slots));
    return static_cast<size_t>(slot);
  }
  void fill(int slot) { filled_[index(slot)] = true; }
  void use(int slot) const {
    if (!filled_[index(slot)])
      fail(fmt::format("slot {} is used while it is empty", slot));
  }
  void useOptional(int slot) const {
    if (slot != -1)
      use(slot);
  }
  void release(const std::vector<int> &slots) {
    for (int slot : slots) {
      use(slot);
      filled_[index(slot)] = false;
    }
  }

  void check(const PlanConstant &constant) {
    fill(constant.slot);
    if (!ir::parseDType(constant.dtype) || !ir::parseDevice(constant.device))
      fail(fmt::format("constant of dtype '{}' on device '{}'", constant.dtype, constant.device));
    if (constant.strides && constant.strides->size() != constant.sizes.size())
      fail("a constant has not as many strides as sizes");
    for (int64_t size : constant.sizes)
      if (size < 0)
        fail("a constant has a negative size");
  }

  void check(const CallStep &step) {
    if (step.ambient >= plan_.ambients.size())
      fail(fmt::format("ambient state {} is not within its {}", step.ambient, plan_.ambients.size()));
    for (const PlanArgument &argument : step.arguments)
      checkArgument(argument);
    for (int slot : step.results)
      if (slot != -1)
        fill(slot);
    release(step.release);
  }

  void checkArgument(const PlanArgument &argument) const {
    switch (argument.kind) {
    case PlanArgument::Kind::Scalar:
      return;
    case PlanArgument::Kind::Number:
      if (!argument.dtype.empty() && !ir::parseDType(argument.dtype))
        fail("dtype '" + argument.dtype + "' is none");
      return;
    case PlanArgument::Kind::Tensor:
      if (argument.slots.size() != 1)
        fail("a tensor argument has not one slot");
      return useOptional(argument.slots.front());
    case PlanArgument::Kind::TensorList:
      for (int slot : argument.slots)
        useOptional(slot);
      return;
    }
  }

  void check(const WritebackStep &step) {
    use(step.target);
    use(step.source);
    release(step.release);
  }

  void check(const LeavesStep &step) {
    if (step.sources.size() != step.results.size())
      fail(fmt::format("{} leaves of {} values", step.results.size(), step.sources.size()));
    for (int slot : step.sources)
      use(slot);
    for (int slot : step.results)
      fill(slot);
    release(step.release);
  }

  void check(const GradientsStep &step) {
    if (step.outputs.size() != step.cotangents.size() || step.leaves.size() != step.results.size() ||
        step.strides.size() != step.results.size())
      fail("a step of gradients has not one cotangent an output, and one leaf and layout a result");
    for (const std::vector<int> *slots : {&step.outputs, &step.cotangents})
      for (int slot : *slots)
        useOptional(slot);
    for (int slot : step.leaves)
      use(slot);
    for (int slot : step.results)
      if (slot != -1)
        fill(slot);
    release(step.release);
  }

  void check(const RngStep &step) {
    if (step.devices.empty() != isRedrawing_)
      fail("a step begins to draw again, or ends it, twice");
    isRedrawing_ = !step.devices.empty();
    for (const std::string &device : step.devices)
      if (!ir::parseDevice(device))
        fail("device '" + device + "' is none");
  }

  const Plan &plan_;
  bool isRedrawing_ = false;
  std::vector<bool> filled_;
};

} // namespace

void validate(const Plan &plan) { Validator(plan).run(); }

} // namespace graphopt::runtime
