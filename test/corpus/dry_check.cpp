// Gradients are on: what a dry capture hands to autograd has to be good enough for it.
#include "dry_check.h"

#include "comparison.h"

#include "capture/capture.h"
#include "ir/print.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>

#include <chrono>
#include <cstring>
#include <sstream>

namespace graphopt::corpus {
namespace {

double millisecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

/// Bytes of everything a call could change.
std::string contentsOf(const Instance &instance) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue &arg : instance.args)
    capture::flatten(arg, tensors);
  for (const capture::NamedTensor &named : instance.program->state())
    tensors.push_back(named.tensor);
  std::string bytes;
  for (const at::Tensor &tensor : tensors) {
    const at::Tensor plain = tensor.detach().contiguous();
    bytes.append(static_cast<const char *>(plain.const_data_ptr()), plain.nbytes());
  }
  const at::Tensor generator = at::detail::getDefaultCPUGenerator().get_state();
  return bytes.append(static_cast<const char *>(generator.const_data_ptr()), generator.nbytes());
}

std::string firstDifference(const std::string &a, const std::string &b) {
  std::istringstream left(a), right(b);
  for (std::string x, y; std::getline(left, x) && std::getline(right, y);)
    if (x != y)
      return x.substr(0, 160) + " against " + y.substr(0, 160);
  return "one is longer";
}

std::string oneLine(std::string text) {
  const size_t said = text.find("a dry capture");
  text = said == std::string::npos ? text : text.substr(text.rfind('\n', said) + 1);
  return text.substr(0, text.find('\n')).substr(0, 240);
}

} // namespace

DryOutcome checkDry(const Factory &make, int64_t seed) {
  DryOutcome outcome;
  std::string dry;
  Instance instance = make();
  at::manual_seed(static_cast<uint64_t>(seed));
  const std::string before = contentsOf(instance);
  auto begin = std::chrono::steady_clock::now();
  try {
    const capture::Capture capture = capture::record(*instance.program, instance.args, {.dry = true});
    outcome.dryMs = millisecondsSince(begin);
    outcome.captured = capture.stats.operators;
    dry = ir::print(capture.graph);
  } catch (const std::exception &error) {
    const std::string what = error.what();
    const bool isSaid = what.find("a dry capture") != std::string::npos;
    outcome.verdict = isSaid ? Outcome::Verdict::Refused : Outcome::Verdict::Wrong;
    outcome.reason = oneLine(what);
  }
  if (contentsOf(instance) != before)
    return {Outcome::Verdict::Wrong, "it changed the state, an argument or the generator", outcome.captured};
  if (outcome.verdict != Outcome::Verdict::Equal)
    return outcome;
  instance = make();
  at::manual_seed(static_cast<uint64_t>(seed));
  begin = std::chrono::steady_clock::now();
  const std::string real = ir::print(capture::record(*instance.program, instance.args).graph);
  outcome.realMs = millisecondsSince(begin);
  if (dry != real) {
    outcome.verdict = Outcome::Verdict::Wrong;
    outcome.reason = firstDifference(dry, real);
  }
  return outcome;
}

} // namespace graphopt::corpus
