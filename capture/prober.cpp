// The backward probe runs the forward again: its graph then speaks of the same numbered values, since the
// same operators make them in the same order.
#include "capture/prober.h"

#include "capture/low_handler.h"
#include "capture/piece_recorder.h"
#include "capture/plain_dispatch.h"
#include "capture/random_watch.h"
#include "capture/synthetic.h"
#include "capture/tensor_type.h"
#include "ir/dtype.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/AutogradState.h>
#include <fmt/format.h>
#include <graphopt/error.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>

namespace graphopt::capture {
namespace {

/// Autograd's engine on this thread alone, so that its operators are seen.
class EngineHere {
public:
  EngineHere() : before_(c10::AutogradState::get_tls_state().get_multithreading_enabled()) {
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  }
  ~EngineHere() { c10::AutogradState::get_tls_state().set_multithreading_enabled(before_); }
  EngineHere(const EngineHere &) = delete;
  EngineHere &operator=(const EngineHere &) = delete;

private:
  bool before_;
};

/// Autocast while a backward runs, as the unit's header says (backward_amp=bf16); else off, whatever the
/// thread that compiles has.
class AutocastInBackward {
public:
  explicit AutocastInBackward(const ir::Graph &unit) {
    for (const c10::DeviceType device : {c10::kCPU, c10::kCUDA}) {
      before_.push_back(
          {device, at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)});
      at::autocast::set_autocast_enabled(device, false);
    }
    at::autocast::set_autocast_cache_enabled(false);
    const auto setting = std::ranges::find(unit.settings, "backward_amp", &ir::NamedAttr::name);
    if (setting == unit.settings.end())
      return;
    const c10::DeviceType device = unit.device.isCpu() ? c10::kCPU : c10::kCUDA;
    at::autocast::set_autocast_enabled(device, true);
    at::autocast::set_autocast_dtype(device, ir::parseDType(setting->value.text()).value());
  }
  ~AutocastInBackward() {
    at::autocast::set_autocast_cache_enabled(keptCasts_);
    for (const State &state : before_) {
      at::autocast::set_autocast_enabled(state.device, state.isOn);
      at::autocast::set_autocast_dtype(state.device, state.dtype);
    }
  }
  AutocastInBackward(const AutocastInBackward &) = delete;
  AutocastInBackward &operator=(const AutocastInBackward &) = delete;

private:
  struct State {
    c10::DeviceType device;
    bool isOn;
    c10::ScalarType dtype;
  };
  std::vector<State> before_;
  const bool keptCasts_ = at::autocast::is_autocast_cache_enabled();
};

std::vector<c10::Device> devicesOf(const ir::Graph &unit) {
  std::vector<c10::Device> devices{c10::Device(c10::kCPU)};
  if (!unit.device.isCpu())
    devices.emplace_back(ir::toString(unit.device));
  return devices;
}

} // namespace

/// One run of a unit.
class Prober::Probe {
public:
  Probe(const UnitRunner &run, const ir::Graph &unit, Contents contents, bool isBare)
      : run_(run), unit_(unit), contents_(contents), recorder_(unit.device, isBare) {}

  ir::ForwardPiece forward() {
    ir::ForwardPiece piece;
    runForward();
    piece.results = results_.size();
    for (const at::Tensor &result : results_)
      piece.requiresGrad.push_back(result.defined() && result.requires_grad());
    piece.graph = recorder_.finishForward(results_);
    return piece;
  }

  ir::BackwardPiece backward(const ir::GradientTypes &cotangents, const ir::GradientTypes &soFar) {
    runForward();
    recorder_.finishForward(results_);
    recorder_.beginBackward();
    std::vector<at::Tensor> roots, gradients;
    addRoots(soFar, inputs_, "s", roots, gradients); // first, so that the engine adds to them
    addRoots(cotangents, results_, "g", roots, gradients);
    return {"", recorder_.finishBackward(differentiate(roots, gradients))};
  }

  /// A result that is not what the unit's types say; empty when all are.
  std::string difference() const {
    const std::vector<ir::Operand> &returned = unit_.returnOp()->operands();
    for (size_t i = 0; i < results_.size(); ++i) {
      if (!returned[i].isValue() || !returned[i].value->type.isTensor() || !results_[i].defined())
        continue;
      const ir::Type &want = returned[i].value->type;
      const ir::Type got = relativeTo(unit_.device, fullTypeOf(results_[i]));
      if (want.dtype != got.dtype || want.sizes != got.sizes || want.strides != got.strides)
        return fmt::format("its result is {}, and was {} in the recorded call", ir::toString(got),
                           ir::toString(want));
    }
    return "";
  }
  /// Whether sizes or dtypes differ, and not strides alone.
  bool hasOtherSizes() const {
    const std::vector<ir::Operand> &returned = unit_.returnOp()->operands();
    for (size_t i = 0; i < results_.size(); ++i)
      if (returned[i].isValue() && returned[i].value->type.isTensor() && results_[i].defined()) {
        const ir::Type got = fullTypeOf(results_[i]);
        if (returned[i].value->type.dtype != got.dtype || returned[i].value->type.sizes != got.sizes)
          return true;
      }
    return false;
  }

  const std::vector<std::string> &kernels() const { return recorder_.kernels(); }

private:
  void runForward() {
    for (const ir::Value *value : unit_.declared(ir::Value::Kind::Input)) {
      at::Tensor input = synthetic(value->type, unit_.device, contents_);
      if (value->type.grad)
        input.requires_grad_();
      recorder_.addInput(input);
      inputs_.push_back(std::move(input));
    }
    LowInterception seen(recorder_);
    results_ = run_(unit_, inputs_);
  }

  void addRoots(const ir::GradientTypes &types, const std::vector<at::Tensor> &tensors, const char *prefix,
                std::vector<at::Tensor> &roots, std::vector<at::Tensor> &gradients) {
    for (size_t i = 0; i < types.size(); ++i) {
      if (!types[i])
        continue;
      at::Tensor gradient = synthetic(*types[i], unit_.device, contents_);
      recorder_.addNamed(gradient, fmt::format("{}{}", prefix, i));
      roots.push_back(tensors.at(i));
      gradients.push_back(std::move(gradient));
    }
  }

  /// One an input; undefined where it needs none or gets none.
  std::vector<at::Tensor> differentiate(const std::vector<at::Tensor> &roots,
                                        const std::vector<at::Tensor> &gradients) {
    std::vector<at::Tensor> leaves, all(inputs_.size());
    for (const at::Tensor &input : inputs_)
      if (input.requires_grad())
        leaves.push_back(input);
    EngineHere here;
    std::vector<at::Tensor> found;
    {
      const AutocastInBackward autocast(unit_);
      LowInterception seen(recorder_);
      found = torch::autograd::grad(roots, leaves, gradients, /*retain_graph=*/false, /*create_graph=*/false,
                                    /*allow_unused=*/true);
    }
    for (size_t i = 0, next = 0; i < inputs_.size(); ++i)
      if (inputs_[i].requires_grad())
        all[i] = found[next++];
    return all;
  }

  const UnitRunner &run_;
  const ir::Graph &unit_;
  const Contents contents_;
  PieceRecorder recorder_;
  std::vector<at::Tensor> inputs_, results_;
};

/// Attempts one after the other; the reason when none worked.
template <class F> std::string Prober::tryAll(const ir::Graph &unit, F &&attempt) {
  if (!lowRegistrationError().empty())
    return fmt::format("the dispatcher key for probes is taken by another library: {}",
                       lowRegistrationError());
  GeneratorStates generators(devicesOf(unit));
  c10::impl::ExcludeDispatchKeyGuard notRecorded(kCaptureHigh);
  std::string why;
  constexpr std::array kAttempts = {Contents::None, Contents::Plain, Contents::Definite, Contents::Ones};
  for (size_t i = options_.kernels ? 1 : 0; i < kAttempts.size(); ++i) {
    const bool isBare = kAttempts[i] == Contents::None;
    counts_.withKernels += i == 1;
    try {
      Probe probe(run_, unit, kAttempts[i], isBare);
      attempt(probe);
      for (const std::string &name : probe.kernels())
        ++counts_.kernels[name];
      why = probe.difference();
      if (why.empty() || (!isBare && !probe.hasOtherSizes())) {
        generators.restore();
        return "";
      }
    } catch (const Opaque &error) {
      generators.restore();
      return error.what();
    } catch (const c10::Error &error) {
      why = fmt::format("it throws when it runs alone: {}", error.what_without_backtrace());
    } catch (const std::exception &error) {
      why = fmt::format("it throws when it runs alone: {}", error.what());
    }
  }
  generators.restore();
  return why.substr(0, why.find('\n'));
}

/// Of an operator that runs, though it cannot be taken apart.
std::vector<bool> Prober::requiresGradOf(const ir::Graph &unit) {
  GeneratorStates generators(devicesOf(unit));
  c10::impl::ExcludeDispatchKeyGuard notRecorded(kCaptureHigh);
  std::vector<bool> flags;
  for (Contents contents : {Contents::Plain, Contents::Ones}) {
    try {
      std::vector<at::Tensor> inputs;
      for (const ir::Value *value : unit.declared(ir::Value::Kind::Input))
        inputs.push_back(synthetic(value->type, unit.device, contents).requires_grad_(value->type.grad));
      for (const at::Tensor &result : run_(unit, inputs))
        flags.push_back(result.defined() && result.requires_grad());
      break;
    } catch (const std::exception &) {
      flags.clear(); // other contents may do
    }
  }
  generators.restore();
  return flags;
}

const ir::ForwardPiece &Prober::forward(const ir::Graph &unit) {
  ++counts_.forwards;
  std::string why = tryAll(unit, [&](Probe &probe) { forward_ = probe.forward(); });
  if (!why.empty()) {
    forward_ = ir::ForwardPiece();
    forward_.opaque = why;
    forward_.requiresGrad = requiresGradOf(unit);
  }
  return forward_;
}

const ir::BackwardPiece &Prober::backward(const ir::Graph &unit, const ir::GradientTypes &cotangents,
                                          const ir::GradientTypes &soFar) {
  ++counts_.backwards;
  std::string why = tryAll(unit, [&](Probe &probe) { backward_ = probe.backward(cotangents, soFar); });
  if (!why.empty()) {
    backward_ = ir::BackwardPiece();
    backward_.opaque = why;
  }
  return backward_;
}

} // namespace graphopt::capture
