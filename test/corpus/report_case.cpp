// The head of reports/export_cases.py says how the files are laid out.
#include "report_case.h"

#include "comparison.h"
#include "contents.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/serialization/import.h>

namespace graphopt::corpus {
namespace {

using at::Tensor;

std::vector<Tensor> parametersOf(const torch::jit::Module &module) {
  std::vector<Tensor> parameters;
  for (const auto &parameter : module.parameters())
    parameters.push_back(parameter);
  return parameters;
}

std::string nameIn(size_t set, const std::string &name) {
  return set == 0 ? name : fmt::format("s{}_{}", set, name);
}

} // namespace

ReportCase::ReportCase(const std::filesystem::path &folder, const std::string &name)
    : module_(folder / (name + ".pt")), data_(torch::jit::load((folder / (name + ".io.pt")).string())) {}

int64_t ReportCase::number(const std::string &name) const { return data_.attr("meta_" + name).toInt(); }
bool ReportCase::flag(const std::string &name) const { return data_.attr("meta_" + name).toBool(); }
std::vector<int64_t> ReportCase::numbers(const std::string &name) const {
  return data_.attr("meta_" + name).toIntVector();
}
bool ReportCase::has(size_t set, const std::string &name) const { return data_.hasattr(nameIn(set, name)); }
Tensor ReportCase::saved(size_t set, const std::string &name) const {
  return data_.attr(nameIn(set, name)).toTensor();
}

torch::jit::Module ReportCase::load() const {
  torch::jit::Module module = torch::jit::load(module_.string());
  module.train(isTraining());
  return module;
}

std::vector<c10::IValue> ReportCase::arguments(size_t set) const {
  std::vector<Tensor> given;
  for (int i = 0; has(set, fmt::format("input{}", i)); ++i)
    given.push_back(saved(set, fmt::format("input{}", i)));
  std::vector<c10::IValue> arguments;
  for (const Tensor &tensor : copiesWithMemory(given))
    arguments.emplace_back(tensor);
  return arguments;
}

bool ReportCase::wantsGradients() const { return !gradientArguments().empty() || flag("grad_params"); }

int64_t ReportCase::seed(size_t set) const {
  const int64_t first = number("seed");
  return first < 0 ? -1 : first + static_cast<int64_t>(set);
}

ReportRun ReportCase::run(size_t set, const torch::jit::Module &module, const Call &call) const {
  const c10::AutoGradMode grad(wantsGradients());
  std::vector<c10::IValue> given = arguments(set);
  std::vector<Tensor> leaves;
  for (int64_t i : gradientArguments())
    leaves.push_back(given.at(static_cast<size_t>(i)).toTensor().requires_grad_());
  if (flag("grad_params"))
    for (const Tensor &parameter : parametersOf(module))
      leaves.push_back(parameter);
  seedAll(seed(set));
  ReportRun run;
  run.results = leavesOf({call(given)});
  std::vector<Tensor> roots, cotangents;
  for (size_t i = 0; i < run.results.size(); ++i)
    if (run.results[i].requires_grad() && has(set, fmt::format("cot{}", i))) {
      roots.push_back(run.results[i]);
      cotangents.push_back(saved(set, fmt::format("cot{}", i)));
    }
  run.gradients.resize(leaves.size());
  if (!roots.empty())
    run.gradients =
        torch::autograd::grad(roots, leaves, cotangents, /*retain_graph=*/false, /*create_graph=*/false,
                              /*allow_unused=*/true);
  for (size_t i = 0; i < leaves.size(); ++i)
    if (!run.gradients[i].defined())
      run.gradients[i] = at::zeros_like(leaves[i].detach());
  run.arguments = leavesOf(given);
  for (const auto &buffer : module.buffers())
    run.buffers.push_back(buffer.clone());
  for (std::vector<Tensor> *tensors : {&run.results, &run.arguments})
    for (Tensor &tensor : *tensors)
      tensor = tensor.detach();
  return run;
}

std::string ReportCase::differenceOf(const Tensor &want, const Tensor &got, bool isResult) const {
  if (want.scalar_type() != got.scalar_type() || want.sizes() != got.sizes())
    return fmt::format("{} {}, eager gives {} {}", toString(got.scalar_type()), fmt::join(got.sizes(), "x"),
                       toString(want.scalar_type()), fmt::join(want.sizes(), "x"));
  if (isResult && flag("strides") && want.strides() != got.strides())
    return fmt::format("strides {}, eager gives {}", fmt::join(got.strides(), ", "),
                       fmt::join(want.strides(), ", "));
  const bool isFloating = want.is_floating_point();
  const double relative = isFloating ? data_.attr("meta_rtol").toDouble() : 0,
               absolute = isFloating ? data_.attr("meta_atol").toDouble() : 0;
  if (!at::allclose(want.to(at::kDouble), got.to(at::kDouble), relative, absolute, /*equal_nan=*/true))
    return fmt::format("values differ, by at most {:g}",
                       (want.to(at::kDouble) - got.to(at::kDouble)).abs().max().item<double>());
  const bool sameSigns = !isFloating || !flag("sign0") ||
                         (at::signbit(want) & ~want.isnan()).equal(at::signbit(got) & ~got.isnan());
  return sameSigns ? "" : "the sign of a zero differs";
}

std::string ReportCase::difference(size_t set, const ReportRun &run) const {
  std::string found;
  auto compare = [&](const std::string &name, const std::vector<Tensor> &tensors, size_t i, bool isResult) {
    if (!found.empty())
      return;
    if (i >= tensors.size())
      found = name + " is missing";
    else if (std::string d = differenceOf(saved(set, name), tensors[i], isResult); !d.empty())
      found = name + ": " + d;
  };
  size_t results = 0;
  for (; has(set, fmt::format("output{}", results)); ++results)
    compare(fmt::format("output{}", results), run.results, results, true);
  if (found.empty() && results != run.results.size())
    found = fmt::format("{} results, eager gives {}", run.results.size(), results);
  for (int64_t i : numbers("mutated"))
    compare(fmt::format("mutated{}", i), run.arguments, static_cast<size_t>(i), false);
  size_t gradient = 0;
  for (int64_t i : gradientArguments())
    compare(fmt::format("grad{}", i), run.gradients, gradient++, false);
  for (size_t i = 0; flag("grad_params") && gradient < run.gradients.size(); ++i)
    compare(fmt::format("pgrad{}", i), run.gradients, gradient++, false);
  for (size_t i = 0; set + 1 == sets() && flag("state") && i < run.buffers.size(); ++i)
    if (std::string d = differenceOf(saved(0, fmt::format("state{}", i)), run.buffers[i], false);
        found.empty() && !d.empty())
      found = fmt::format("state{}: {}", i, d);
  return found;
}

} // namespace graphopt::corpus
