// The loss is the mean square of each floating result, so that every result has a gradient of its own.
#include "steps_check.h"

#include "autocast_region.h"
#include "comparison.h"
#include "contents.h"

#include <graphopt/compile.h>
#include <graphopt/error.h>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace graphopt::corpus {
namespace {

using at::Tensor;
using Values = std::vector<c10::IValue>;
using Call = std::function<c10::IValue(const Values &)>;

constexpr int kSteps = 5;

torch::optim::SGDOptions sgd() { return torch::optim::SGDOptions(1e-2).momentum(0.9).weight_decay(1e-2); }

std::string firstLine(const std::string &text) {
  return text.substr(0, std::min<size_t>(text.find('\n'), 300));
}

enum class Contents { Fresh, Given };

struct Given {
  const ScriptedFactory &load;
  const StepsOptions &options;
};

/// One instance of the program with its optimizer.
class Trainee {
public:
  Trainee(const Given &given, Contents contents)
      : loaded_(given.load()), contents_(contents), autocast_(given.options.autocast) {
    loaded_.args = inOwnMemory(loaded_.args);
    loaded_.module.train();
    for (const auto &parameter : loaded_.module.parameters()) {
      parameters_.push_back(parameter);
      if (parameters_.back().is_floating_point())
        parameters_.back().requires_grad_();
    }
    optimizer_.emplace(parameters_, sgd());
  }
  const torch::jit::Module &module() const { return loaded_.module; }

  void step(int number, const Call &call) {
    args_ = contents_ == Contents::Given ? inOwnMemory(loaded_.args)
                                         : freshContents(loaded_.args, static_cast<uint64_t>(200 + number));
    optimizer_->zero_grad();
    seedAll(number);
    error.clear();
    try {
      {
        const AutocastRegion region(autocast_);
        results_ = leavesOf({call(args_)});
      }
      loss_ = lossOf(results_);
      if (!loss_.requires_grad())
        throw std::runtime_error("no result requires a gradient");
      loss_.backward();
      torch::nn::utils::clip_grad_norm_(parameters_, 1.0); // random weights: else some losses explode
      optimizer_->step();
    } catch (const Error &e) {
      isRefused = e.kind() == Error::Kind::User;
      error = firstLine(e.what());
    } catch (const std::exception &e) {
      error = firstLine(e.what());
    }
  }

  double loss() const { return loss_.defined() ? loss_.item().toDouble() : 0; }
  std::vector<Tensor> results() const { return detached(results_); }
  std::vector<Tensor> losses() const { return detached({loss_}); }
  std::vector<Tensor> arguments() const { return leavesOf(args_); }
  std::vector<Tensor> parameters() const { return detached(parameters_); }
  std::vector<Tensor> buffers() const {
    std::vector<Tensor> buffers;
    for (const auto &buffer : loaded_.module.buffers())
      buffers.push_back(buffer);
    return buffers;
  }
  std::vector<Tensor> gradients() const {
    std::vector<Tensor> gradients;
    for (const Tensor &parameter : parameters_)
      gradients.push_back(parameter.grad());
    return withoutUnitStrides(gradients);
  }

  std::string error; // of the last step
  bool isRefused = false;

private:
  static Tensor lossOf(const std::vector<Tensor> &results) {
    Tensor loss = at::zeros({});
    for (const Tensor &result : results)
      if (result.defined() && result.is_floating_point() && result.requires_grad())
        loss = loss + result.to(at::kFloat).square().mean();
    return loss;
  }
  static std::vector<Tensor> detached(const std::vector<Tensor> &tensors) {
    std::vector<Tensor> plain;
    for (const Tensor &tensor : tensors)
      plain.push_back(tensor.defined() ? tensor.detach() : tensor);
    return plain;
  }

  Scripted loaded_;
  const Contents contents_;
  const bool autocast_;
  std::vector<Tensor> parameters_, results_;
  std::optional<torch::optim::SGD> optimizer_;
  Values args_;
  Tensor loss_;
};

/// After a step of each.
std::string difference(const Trainee &want, const Trainee &got) {
  if (want.error.empty() != got.error.empty())
    return got.error.empty() ? "no error, eager says: " + want.error : got.error;
  using Part = std::vector<Tensor> (Trainee::*)() const;
  static constexpr std::pair<const char *, Part> kParts[] = {
      {"result", &Trainee::results},       {"loss", &Trainee::losses},    {"gradient", &Trainee::gradients},
      {"parameter", &Trainee::parameters}, {"buffer", &Trainee::buffers}, {"argument", &Trainee::arguments}};
  for (const auto &[what, part] : kParts)
    if (std::string d = differenceIn(what, (want.*part)(), (got.*part)()); !d.empty())
      return d;
  return "";
}

Call eagerly(const Trainee &trainee) {
  std::shared_ptr<capture::Program> program = capture::torchScriptProgram(trainee.module());
  return [program](const Values &args) { return program->call(args); };
}

/// Whether eager gives the same twice: asked once something differs.
std::string eagersOwnDifference(const Given &given, Contents contents) {
  Trainee first(given, contents), second(given, contents);
  const Call firstCall = eagerly(first), secondCall = eagerly(second);
  for (int number = 1; number <= kSteps; ++number) {
    first.step(number, firstCall);
    second.step(number, secondCall);
    if (std::string d = difference(first, second); !d.empty())
      return d;
  }
  return "";
}

void count(StepsOutcome &outcome, const Explanation &explanation) {
  outcome.segments = explanation.segments.size();
  outcome.compiledRuns = explanation.compiledRuns;
  for (const auto &[reason, times] : explanation.notCompiled) {
    outcome.otherRuns += times;
    outcome.reason += (outcome.reason.empty() ? "" : "; ") + firstLine(reason);
  }
}

StepsOutcome failed(StepsOutcome outcome, Outcome::Verdict verdict, const std::string &why) {
  outcome.verdict = verdict;
  outcome.reason = why;
  return outcome;
}

StepsOutcome check(const Given &given, Contents contents) {
  StepsOutcome outcome;
  Trainee eager(given, contents), compiled(given, contents);
  const CompiledScript fast = compile(compiled.module(), {.recompute = given.options.recompute});
  const Call eagerCall = eagerly(eager);
  for (int number = 1; number <= kSteps; ++number) {
    eager.step(number, eagerCall);
    if (!eager.error.empty())
      return failed(outcome, Outcome::Verdict::Invalid, "eager: " + eager.error);
    compiled.step(number, [&](const Values &args) { return fast.forward(args); });
    if (std::string d = difference(eager, compiled); !d.empty()) {
      if (std::string own = eagersOwnDifference(given, contents); !own.empty())
        return failed(outcome, Outcome::Verdict::Invalid, "eager beside eager: " + own);
      return failed(outcome, compiled.isRefused ? Outcome::Verdict::Refused : Outcome::Verdict::Wrong,
                    fmt::format("step {}: {}", number, d));
    }
    (number == 1 ? outcome.first : outcome.last) = eager.loss();
  }
  count(outcome, fast.explain());
  if (!std::isfinite(outcome.first) || !std::isfinite(outcome.last))
    return failed(outcome, Outcome::Verdict::Wrong, "the loss is not finite");
  return outcome;
}

} // namespace

StepsOutcome checkSteps(const ScriptedFactory &load, const StepsOptions &options) {
  const c10::AutoGradMode grad(true);
  const Given given{load, options};
  StepsOutcome outcome = check(given, Contents::Fresh);
  if (outcome.verdict == Outcome::Verdict::Invalid)
    outcome = check(given, Contents::Given);
  return outcome;
}

} // namespace graphopt::corpus
