// The interpreter runs the operators as the program called them, on inputs that count as leaves.
#include "driver/run_again.h"

#include "runtime/interpret.h"
#include "runtime/rng.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/alias.h>
#include <torch/csrc/autograd/autograd.h>

#include <optional>

namespace graphopt::driver {
namespace {

struct Run {
  std::vector<at::Tensor> results, leaves;
};

Run run(const SurfaceGraph &surface, const capture::GeneratorStates *draws,
        const std::vector<ir::SymValue> &syms, const std::vector<at::Tensor> &inputs) {
  runtime::Environment environment;
  for (size_t i = 0; i < surface.names.size(); ++i)
    environment[surface.names[i]] = inputs[i];
  c10::AutoGradMode grad(true);
  Run made;
  // One input may have been made of another (a cast of a weight): each gradient is of what passes through
  // that input here.
  for (size_t position : surface.positions)
    made.leaves.push_back(environment[surface.names[position]] = at::alias(inputs[position]));
  runtime::InterpretOptions options;
  options.syms = syms;
  std::optional<runtime::RngScope> rng; // afterwards generators go on from where they are now
  if (draws) {
    rng.emplace(surface.drawsOn, runtime::RngScope::Others::GoOn);
    draws->restore();
  }
  made.results = runtime::interpret(*surface.graph, environment, options);
  return made;
}

} // namespace

std::vector<at::Tensor> gradientsAgain(const SurfaceGraph &surface, const capture::GeneratorStates *draws,
                                       const std::vector<ir::SymValue> &syms,
                                       const std::vector<at::Tensor> &inputs,
                                       const std::vector<at::Tensor> &cotangents) {
  const bool createGraph = c10::GradMode::is_enabled();
  const Run made = run(surface, draws, syms, inputs);
  std::vector<at::Tensor> roots, given;
  for (size_t i = 0, next = 0; i < made.results.size(); ++i) {
    if (!surface.isDifferentiable[i])
      continue;
    const at::Tensor &cotangent = cotangents.at(next++);
    if (!cotangent.defined() || !made.results[i].requires_grad())
      continue;
    roots.push_back(made.results[i]);
    given.push_back(cotangent);
  }
  if (roots.empty())
    return std::vector<at::Tensor>(made.leaves.size());
  return torch::autograd::grad(roots, made.leaves, given, /*retain_graph=*/createGraph, createGraph,
                               /*allow_unused=*/true);
}

} // namespace graphopt::driver
