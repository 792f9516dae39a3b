// The steps of shadow_check.h.
#include "shadow_check.h"

#include "comparison.h"
#include "contents.h"

#include <graphopt/compile.h>
#include <graphopt/error.h>

#include <ATen/ATen.h>
#include <algorithm>
#include <fmt/format.h>
#include <torch/csrc/jit/passes/inliner.h>

namespace graphopt::corpus {
namespace {

using at::Tensor;
using Values = std::vector<c10::IValue>;

constexpr int kCalls = 6;
/// The calls with contents of their own; the others get the given ones.
bool isFresh(int call) { return call == 4 || call == 5; }

std::string firstLine(const std::string &text) {
  return text.substr(0, std::min<size_t>(text.find('\n'), 300));
}

Values argumentsOf(const Values &given, int call) {
  if (!isFresh(call))
    return given;
  return freshContents(given, static_cast<uint64_t>(100 + call));
}

/// One instance of the program, called again and again.
class Side {
public:
  using Call = std::function<c10::IValue(const Values &)>;
  Side(const ScriptedFactory &load, bool isTraining) : loaded_(load()), isTraining_(isTraining) {
    loaded_.args = inOwnMemory(loaded_.args);
    loaded_.module.train(isTraining);
  }
  const torch::jit::Module &module() const { return loaded_.module; }

  void call(int number, const Call &call) {
    args_ = argumentsOf(loaded_.args, number);
    for (const auto &parameter : loaded_.module.parameters())
      Tensor(parameter).mutable_grad() = Tensor();
    seedAll(number);
    at::AutoGradMode mode(isTraining_);
    results.emplace_back();
    error.clear();
    try {
      results.back() = leavesOf({call(args_)});
      if (isTraining_)
        backward();
    } catch (const Error &e) {
      refusal = e.kind() == Error::Kind::User ? firstLine(e.what()) : "";
      error = firstLine(e.what());
    } catch (const std::exception &e) {
      error = firstLine(e.what());
    }
  }

  std::vector<Tensor> arguments() const { return leavesOf(args_); }
  std::vector<Tensor> state() const {
    std::vector<Tensor> state;
    for (const auto &buffer : loaded_.module.buffers())
      state.push_back(buffer);
    for (const auto &parameter : loaded_.module.parameters())
      state.push_back(parameter.detach());
    return state;
  }
  std::vector<Tensor> gradients() const {
    std::vector<Tensor> gradients;
    for (const auto &parameter : loaded_.module.parameters())
      gradients.push_back(parameter.grad());
    return gradients;
  }

  std::vector<std::vector<Tensor>> results; // of every call: a later one must not write into them
  std::string error, refusal;               // of the last call

private:
  void backward() {
    Tensor loss;
    for (const Tensor &result : results.back())
      if (result.defined() && result.requires_grad())
        loss = loss.defined() ? loss + result.sum() : result.sum();
    if (loss.defined())
      loss.backward();
    for (Tensor &result : results.back()) // the history has been used
      result = result.detach();
  }

  Scripted loaded_;
  const bool isTraining_;
  Values args_;
};

/// After a call of each side.
std::string difference(const Side &want, const Side &got) {
  if (want.error.empty() != got.error.empty())
    return got.error.empty() ? "no error, eager says: " + want.error : got.error;
  std::string d = differenceIn("result", want.results.back(), got.results.back());
  if (d.empty())
    d = differenceIn("argument", want.arguments(), got.arguments());
  if (d.empty())
    d = differenceIn("state tensor", want.state(), got.state());
  return d.empty() ? differenceIn("gradient", want.gradients(), got.gradients()) : d;
}

/// After all calls.
std::string lateDifference(const Side &want, const Side &got) {
  for (size_t call = 0; call < want.results.size(); ++call)
    if (std::string d = differenceIn("result", want.results[call], got.results[call]); !d.empty())
      return fmt::format("call {}, seen after the last one: {}", call + 1, d);
  return "";
}

Side::Call eagerly(const Side &side) {
  std::shared_ptr<capture::Program> program = capture::torchScriptProgram(side.module());
  return [program](const Values &args) { return program->call(args); };
}

bool hasBranch(const torch::jit::Block *block) {
  return std::any_of(block->nodes().begin(), block->nodes().end(), [](const torch::jit::Node *node) {
    return node->kind() == c10::prim::If || node->kind() == c10::prim::Loop;
  });
}

bool hasBranch(const torch::jit::Module &module) {
  std::shared_ptr<torch::jit::Graph> graph = module.get_method("forward").graph()->copy();
  torch::jit::Inline(*graph);
  return hasBranch(graph->block());
}

/// The state of one check.
class Check {
public:
  Check(const ScriptedFactory &load, bool isTraining)
      : load_(load), isTraining_(isTraining), eager_(load, isTraining), shadowed_(load, isTraining) {}

  ShadowOutcome run() {
    if (isTraining_ && !isReproducible())
      return outcome_;
    CompiledScript compiled = compile(shadowed_.module());
    const Side::Call eagerCall = eagerly(eager_);
    Explanation second, beforeLast;
    for (int call = 1; call <= kCalls; ++call) {
      if (call == 3)
        second = compiled.explain();
      if (call == kCalls)
        beforeLast = compiled.explain();
      eager_.call(call, eagerCall);
      shadowed_.call(call, [&](const Values &args) { return compiled.forward(args); });
      if (call == 1 && !eager_.error.empty())
        return fail(Outcome::Verdict::Invalid, "eager: " + eager_.error);
      if (std::string d = difference(eager_, shadowed_); !d.empty())
        return fail(shadowed_.refusal.empty() ? Outcome::Verdict::Wrong : Outcome::Verdict::Refused,
                    fmt::format("call {}: {}", call, d));
    }
    if (std::string d = lateDifference(eager_, shadowed_); !d.empty())
      return fail(Outcome::Verdict::Wrong, d);
    count(second.shadow, beforeLast.shadow, compiled.explain());
    return outcome_;
  }

private:
  ShadowOutcome fail(Outcome::Verdict verdict, const std::string &why) {
    outcome_.verdict = verdict;
    outcome_.reason = why;
    return outcome_;
  }

  bool isReproducible() {
    Side first(load_, isTraining_), second(load_, isTraining_);
    const Side::Call firstCall = eagerly(first), secondCall = eagerly(second);
    for (int call = 1; call <= kCalls; ++call) {
      first.call(call, firstCall);
      second.call(call, secondCall);
      if (std::string d = difference(first, second); !d.empty()) {
        fail(Outcome::Verdict::Invalid, "eager beside eager: " + d);
        return false;
      }
    }
    return true;
  }

  void count(const ShadowCounters &second, const ShadowCounters &beforeLast, const Explanation &all) {
    const ShadowCounters &last = all.shadow;
    const uint64_t recorded = last.recordedOperators - beforeLast.recordedOperators;
    outcome_.atOnce = last.directOperators - beforeLast.directOperators + recorded;
    outcome_.operators = last.shadowedOperators - beforeLast.shadowedOperators + outcome_.atOnce;
    outcome_.segments = all.segments.size();
    outcome_.recordings = last.recordings;
    outcome_.lateDivergences = last.divergences - second.divergences;
    outcome_.borders = last.borders - beforeLast.borders;
    if (last.overLimitCalls)
      outcome_.reason = fmt::format("{} calls ran eagerly in part: {}", last.overLimitCalls,
                                    all.overLimits.empty() ? "" : firstLine(all.overLimits.back()));
    else if (outcome_.lateDivergences && !all.divergences.empty())
      outcome_.reason = firstLine(all.divergences.back());
    if (last.shadowedOperators == 0)
      fail(Outcome::Verdict::Wrong, "no operator was put off");
    const bool isSteady = last.recordings == second.recordings && outcome_.lateDivergences == 0;
    if (!isSteady && last.borders == 0 && !hasBranch(shadowed_.module()))
      fail(Outcome::Verdict::Wrong,
           "recorded again after the second call, without a branch: " + outcome_.reason);
  }

  const ScriptedFactory &load_;
  const bool isTraining_;
  Side eager_, shadowed_;
  ShadowOutcome outcome_;
};

} // namespace

ShadowOutcome checkShadow(const ScriptedFactory &load, bool isTraining) {
  return Check(load, isTraining).run();
}

} // namespace graphopt::corpus
