// The program comes first, so that its values and its random numbers are those of an ordinary call.
#include "driver/audit.h"

#include "driver/same_values.h"
#include "ir/effects.h"
#include "runtime/catalog.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <fmt/format.h>

namespace graphopt::driver {
namespace {

std::vector<c10::Device> devicesOf(const std::vector<at::Tensor> &tensors) {
  std::vector<c10::Device> devices;
  for (const at::Tensor &tensor : tensors)
    if (tensor.defined() && std::ranges::find(devices, tensor.device()) == devices.end())
      devices.push_back(tensor.device());
  return devices;
}

bool agree(const at::Tensor &want, const at::Tensor &got) {
  const Nearness allowed = want.is_cpu() ? Nearness::Same : Nearness::Rounding;
  return nearness(want, got) <= allowed;
}

/// Whether an operator may draw from a default generator: by its tag, or outside of aten, where tags may be
/// missing.
bool draws(const ir::Graph &graph) {
  bool found = false;
  ir::walk(graph.body(), [&](const ir::Op &op) {
    if (op.kind == ir::Op::Kind::Call)
      found |= ir::effectsOf(op, &runtime::dispatcherCatalog()).random || !op.name.starts_with("aten.");
  });
  return found;
}

/// Puts the generators back where the program left them.
class AfterProgram {
public:
  AfterProgram(bool draws, const std::vector<c10::Device> &devices) {
    if (draws)
      states_.emplace(devices);
  }
  ~AfterProgram() {
    if (states_)
      states_->restore();
  }
  AfterProgram(const AfterProgram &) = delete;
  AfterProgram &operator=(const AfterProgram &) = delete;
  bool areCurrent() const { return !states_ || states_->areCurrent(); }

private:
  std::optional<capture::GeneratorStates> states_;
};

} // namespace

Audit::Audit(const Variant &variant, const std::vector<c10::IValue> &args)
    : variant_(variant), inputs_(variant.inputs(args)), copies_(inputs_), devices_(devicesOf(inputs_)),
      before_(draws(variant.graph()) ? std::make_optional<capture::GeneratorStates>(devices_)
                                     : std::nullopt) {}

c10::IValue Audit::runPlan() const {
  const at::DisableRecordFunctionGuard unseen;
  if (before_)
    before_->restore();
  return variant_.runOn(copies_.tensors());
}

std::string Audit::compareResults(const c10::IValue &want, const c10::IValue &got) const {
  std::vector<at::Tensor> wanted, gotten;
  const capture::Structure a = capture::flatten(want, wanted), b = capture::flatten(got, gotten);
  if (std::string text = capture::difference(a, b); !text.empty())
    return "the results differ in structure: " + text;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (std::string text = metadataDifference(wanted[i], gotten[i]); !text.empty())
      return fmt::format("result {} is {}", i, text);
    if (wanted[i].defined() && !agree(wanted[i], gotten[i]))
      return fmt::format("result {} has other values", i);
  }
  return "";
}

std::string Audit::difference(const c10::IValue &result) {
  const AfterProgram after(before_.has_value(), devices_);
  c10::IValue planned;
  try {
    planned = runPlan();
  } catch (const std::exception &error) {
    return fmt::format("the plan threw: {}", error.what());
  }
  if (!after.areCurrent())
    return "the program drew other random numbers than the plan";
  if (std::string text = compareResults(result, planned); !text.empty())
    return text;
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].defined() && !agree(inputs_[i], copies_.tensors()[i]))
      return fmt::format("'{}' has other values afterwards", variant_.inputName(i));
  return "";
}

std::string Audit::differenceFromError(const std::string &error) {
  const AfterProgram after(before_.has_value(), devices_);
  try {
    runPlan();
  } catch (const std::exception &) {
    return "";
  }
  return "the program threw, and the plan does not: " + error;
}

} // namespace graphopt::driver
