// Runs traps: the same body eagerly and compiled, each from the same seeds and the same switches.
#include "trap.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <torch/utils.h>

#include <cstdlib>
#include <fmt/format.h>

namespace graphopt::soundness {
namespace {

constexpr uint64_t kSeed = 7;

/// Puts back what a trap may change, so that no trap sees another one's mistakes.
class Switches {
public:
  Switches() {
    torch::manual_seed(kSeed);
    std::srand(static_cast<unsigned>(kSeed));
  }
  ~Switches() {
    at::set_default_dtype(dtype_);
    at::globalContext().setDeterministicAlgorithms(deterministic_, false);
    at::autocast::set_autocast_enabled(at::kCPU, autocast_);
    at::autocast::set_autocast_dtype(at::kCPU, autocastDtype_);
    at::autocast::clear_cache();
    at::set_num_threads(threads_);
  }
  Switches(const Switches &) = delete;
  Switches &operator=(const Switches &) = delete;

private:
  const caffe2::TypeMeta dtype_ = at::get_default_dtype();
  const bool deterministic_ = at::globalContext().deterministicAlgorithms();
  const bool autocast_ = at::autocast::is_autocast_enabled(at::kCPU);
  const at::ScalarType autocastDtype_ = at::autocast::get_autocast_dtype(at::kCPU);
  const int threads_ = at::get_num_threads();
};

void runInVariant(const Trap &trap, Trial &run) {
  const Switches switches;
  const DeviceScope there;
  const c10::InferenceMode inference(run.variant() == Variant::Inference);
  const at::AutoGradMode grad(run.gradients());
  trap.body(run);
}

} // namespace

const std::vector<Mode> &modes() {
  static const std::vector<Mode> all{
      {"disabled", {.disable = true}, /*replays=*/false},
      {"shadow", {.strict = true}, /*replays=*/true},
      {"dynamic", {.dynamic = Dynamic::always, .strict = true}, /*replays=*/true},
      {"nodes", {.strict = true, .compileBackward = false}, /*replays=*/true},
      {"recompute", {.strict = true, .recompute = true}, /*replays=*/true},
  };
  return all;
}

const char *nameOf(Variant variant) {
  switch (variant) {
  case Variant::Seeded:
    return "seeded";
  case Variant::SeededOnce:
    return "seeded once";
  case Variant::NoGrad:
    return "no grad";
  case Variant::Inference:
    return "inference";
  }
  return "";
}

Trial::Trial(const Mode *mode, Variant variant)
    : mode_(mode), variant_(variant), options_(mode ? mode->options : CompileOptions()),
      generator_(at::detail::createCPUGenerator(kSeed)) {}

Tensor Trial::randn(at::IntArrayRef sizes) {
  const Tensor values = at::randn(sizes, generator_, at::TensorOptions().device(at::kCPU));
  return trapDevice().is_cpu() ? values : values.to(trapDevice());
}

void Trial::calls(const std::function<void(int)> &body, int count) {
  for (int i = 1; i <= count; ++i) {
    ++call_;
    if (variant_ != Variant::SeededOnce)
      torch::manual_seed(kSeed + static_cast<uint64_t>(i));
    try {
      body(i);
    } catch (const std::exception &error) {
      see("error", describe(error));
    }
    lookAround();
    if (call_ == 2)
      afterSecond_ = totals();
  }
}

void Trial::see(const std::string &name, const Tensor &tensor) {
  facts_.push_back(factOf(call_, name, tensor));
  seen_.push_back({name, tensor});
}

void Trial::see(const std::string &name, const std::vector<Tensor> &tensors) {
  see(name + ".size", tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i)
    see(fmt::format("{}[{}]", name, i), tensors[i]);
}

void Trial::see(const std::string &name, const std::optional<Tensor> &tensor) {
  if (tensor)
    return see(name, *tensor);
  see(name, "nullopt");
}

void Trial::see(const std::string &name, const std::string &text) { facts_.push_back({call_, name, text}); }

Tensor Trial::in(const std::string &name, Tensor tensor) {
  inputs_.push_back({name, tensor});
  return tensor;
}

void Trial::backward(const Tensor &y) {
  if (!y.defined() || !y.requires_grad())
    return;
  const Tensor weights = at::arange(y.numel(), y.options().requires_grad(false)).view(y.sizes()).cos();
  (y * weights).sum().backward();
}

void Trial::lookAtWatched(std::vector<Named> &all) {
  for (const Watched &watched : watched_)
    all.push_back({watched.name, watched.get()});
  for (const auto &state : modules_)
    for (Named &item : state())
      all.push_back(std::move(item));
  all.insert(all.end(), inputs_.begin(), inputs_.end());
  for (const Named &item : all) {
    facts_.push_back(factOf(call_, item.name + " afterwards", item.tensor));
    if (item.tensor.defined() && item.tensor.is_leaf() && item.tensor.requires_grad())
      facts_.push_back(factOf(call_, item.name + ".grad", item.tensor.grad()));
  }
}

/// Results of the call before are looked at again: memory that is used twice shows here.
void Trial::lookAround() {
  std::vector<Named> all;
  lookAtWatched(all);
  for (const Named &item : earlier_)
    facts_.push_back(factOf(call_, item.name + " of the call before", item.tensor));
  all.insert(all.end(), seen_.begin(), seen_.end());
  for (const Named &item : earlier_)
    all.push_back({item.name + " of the call before", item.tensor});
  for (Fact &fact : relations(call_, all))
    facts_.push_back(std::move(fact));
  facts_.push_back({call_, "generator", "", at::detail::getDefaultCPUGenerator().get_state().clone()});
  if (!trapDevice().is_cpu())
    facts_.push_back({call_, "device generator", "",
                      at::globalContext().defaultGenerator(trapDevice()).get_state().clone()});
  see("switches", ambientText());
  earlier_ = std::move(seen_);
  seen_.clear();
  inputs_.clear();
}

Trial::Totals Trial::totals() const {
  Totals sum;
  for (const auto &explain : explains_) {
    const Explanation explanation = explain();
    sum.failures += explanation.counters.failures;
    sum.matched += explanation.shadow.shadowedOperators;
    sum.unverified += explanation.shadow.verifyUndecided;
    sum.news += explanation.shadow.recordings + explanation.shadow.divergences;
  }
  return sum;
}

std::vector<std::string> Trial::brokenPromises() const {
  std::vector<std::string> broken;
  if (!replays())
    return broken;
  const Totals sum = totals();
  if (sum.failures)
    broken.push_back(fmt::format("{} calls failed inside graphopt", sum.failures));
  if (sum.unverified && trapDevice().is_cpu()) // elsewhere kernels may add in any order
    broken.push_back(fmt::format("{} verify runs could not decide", sum.unverified));
  if (sum.matched == 0 && !unmatched_ && !mode_->options.disable)
    broken.push_back("no operator was matched: the trap has shown nothing");
  if (steady_ && sum.news > afterSecond_.news)
    broken.push_back(
        fmt::format("after the second call {} more recordings or divergences", sum.news - afterSecond_.news));
  return broken;
}

/// Without gradients or in inference mode an error may be the right answer.
std::string Trial::surprise() const {
  if (mayThrow_ || !gradients())
    return "";
  for (const Fact &fact : facts_)
    if (fact.what == "error")
      return fmt::format("call {}: the trap itself fails, eagerly: {}", fact.call, fact.text);
  return "";
}

std::vector<Trap> &traps() {
  static std::vector<Trap> all;
  return all;
}

bool enlist(const Trap &trap) {
  traps().push_back(trap);
  return true;
}

/// GRAPHOPT_TRAP_FACTS=1: what a run showed, to see that a trap says what it means to.
void printFacts(const Trap &trap, const char *who, const Trial &run) {
  if (!std::getenv("GRAPHOPT_TRAP_FACTS"))
    return;
  for (const Fact &fact : run.facts())
    fmt::print("{}.{} {} [{}] call {}: {}: {}\n", trap.theme, trap.name, who, nameOf(run.variant()),
               fact.call, fact.what, fact.text);
}

std::vector<std::string> spring(const Trap &trap, const Mode &mode) {
  std::vector<std::string> found;
  for (const Variant variant : kVariants) {
    Trial eager(nullptr, variant), compiled(&mode, variant);
    runInVariant(trap, eager);
    printFacts(trap, "eager", eager);
    runInVariant(trap, compiled);
    printFacts(trap, mode.name.c_str(), compiled);
    std::vector<std::string> here = differences(eager.facts(), compiled.facts());
    if (std::string text = eager.surprise(); !text.empty()) {
      if (!trapDevice().is_cpu()) // mixes devices, or has no kernel there
        throw NotHere{text};
      here.push_back(std::move(text));
    }
    for (std::string &text : compiled.brokenPromises())
      here.push_back(std::move(text));
    for (const std::string &text : here)
      found.push_back(fmt::format("[{}] {}", nameOf(variant), text));
  }
  return found;
}

} // namespace graphopt::soundness
