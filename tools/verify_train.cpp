// Gradients are those of the sum of squares of the results. The fp64 run is the program as captured, with
// autograd's own gradients: it shares nothing with lowering.
#include "tools/verify_train.h"

#include "tools/files.h"
#include "tools/session.h"
#include "tools/verify_report.h"

#include "driver/shadow.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sum.h>
#include <fmt/format.h>
#include <graphopt/error.h>
#include <torch/csrc/autograd/autograd.h>

#include <iostream>
#include <unordered_map>

namespace graphopt::tools {
namespace {

constexpr int kCalls = 4; // recorded, verified, observed, and the last is compiled

/// What a call and its backward gave.
struct Made {
  std::vector<at::Tensor> results, gradients;
};

/// What gets gradients, with names for rows.
struct Leaves {
  std::vector<at::Tensor> tensors;
  std::vector<std::string> names;
};

Leaves leavesOf(const Instance &instance) {
  Leaves leaves;
  auto add = [&](const std::string &name, const at::Tensor &tensor) {
    if (tensor.defined() && tensor.is_floating_point() && tensor.is_leaf()) {
      leaves.tensors.push_back(tensor.requires_grad_());
      leaves.names.push_back("d." + name);
    }
  };
  for (size_t i = 0; i < instance.args.size(); ++i)
    if (instance.args[i].isTensor())
      add(fmt::format("arg{}", i), instance.args[i].toTensor());
  for (const capture::NamedTensor &named : instance.state())
    if (named.isParameter)
      add(named.name, named.tensor);
  return leaves;
}

std::vector<at::Tensor> gradientsOf(const std::vector<at::Tensor> &results,
                                    const std::vector<at::Tensor> &leaves) {
  std::vector<at::Tensor> roots;
  for (const at::Tensor &result : results)
    if (result.defined() && result.requires_grad())
      roots.push_back(result.pow(2).sum());
  if (roots.empty())
    return std::vector<at::Tensor>(leaves.size());
  return torch::autograd::grad(roots, leaves, {}, std::nullopt, /*create_graph=*/false,
                               /*allow_unused=*/true);
}

Made eagerCall(const Instance &instance, const Leaves &leaves, uint64_t seed) {
  Made made;
  made.results = tensorsOf(instance.call(seed));
  made.gradients = gradientsOf(made.results, leaves.tensors);
  return made;
}

/// Through compiled segments, once it has been called often enough.
Made shadowedCall(driver::Shadow &shadow, Instance &instance, const Leaves &leaves, uint64_t seed) {
  seedGenerators(seed);
  c10::IValue result;
  shadow.call(
      *instance.program, [&] { result = instance.program->call(instance.args); },
      [&] { return instance.args; });
  Made made;
  made.results = tensorsOf(result);
  made.gradients = gradientsOf(made.results, leaves.tensors);
  return made;
}

// ---- fp64

/// The captured graph with its leaves in f64, so that their gradients are.
Made runInFp64(const capture::Capture &recording, const Instance &instance, const Leaves &leaves) {
  ir::Graph graph = recording.graph.clone();
  runtime::Environment environment = environmentOf(recording, instance);
  std::unordered_map<const c10::TensorImpl *, at::Tensor> wide;
  std::vector<at::Tensor> wideLeaves;
  for (const at::Tensor &leaf : leaves.tensors) {
    at::Tensor &tensor = wide[leaf.unsafeGetTensorImpl()];
    if (!tensor.defined())
      tensor = leaf.detach().to(at::kDouble).requires_grad_();
    wideLeaves.push_back(tensor);
  }
  for (ir::Value *value : graph.declarations())
    if (auto given = environment.find(value->name); given != environment.end() && given->second.defined())
      if (auto found = wide.find(given->second.unsafeGetTensorImpl()); found != wide.end()) {
        given->second = found->second;
        value->type.dtype = at::kDouble;
      }
  runtime::InterpretOptions options;
  options.fp64 = true;
  Made made;
  made.results =
      tensorsOf(capture::unflatten(recording.output, runtime::interpret(graph, environment, options)));
  made.gradients = gradientsOf(made.results, wideLeaves);
  return made;
}

/// The last call in f64; nothing, and why on stderr, when it cannot be had.
Made oracleOf(const ModelFlags &model) {
  const auto without = [](const std::string &why) {
    std::cerr << "graphopt: note: no fp64 run: " << why << "; values must be equal\n";
    return Made();
  };
  const Instance instance = model.make();
  const Leaves leaves = leavesOf(instance);
  try {
    const capture::Capture recording = instance.record(model.seed());
    if (hasRandomOperators(recording.graph))
      return without("the program draws random numbers");
    if (const std::string reason = borderReason(recording); !reason.empty())
      return without(reason);
    for (int call = model.isText() ? 0 : 1; call + 1 < kCalls; ++call)
      instance.call(model.seed());
    return runInFp64(recording, instance, leaves);
  } catch (const Error &error) {
    return without(error.what());
  }
}

// ---- rows

std::vector<at::Tensor> tensorsOfState(const Instance &instance) {
  std::vector<at::Tensor> tensors;
  for (const capture::NamedTensor &named : instance.state())
    tensors.push_back(named.tensor.detach());
  return tensors;
}

/// The stride of a dim of size 1 means nothing, and autograd's engine gives another one when it adds two
/// gradients in place.
at::Tensor withoutUnitStrides(at::Tensor tensor) {
  for (int64_t d = 0; tensor.defined() && d < tensor.dim(); ++d)
    if (tensor.size(d) == 1)
      tensor = tensor.select(d, 0).unsqueeze(d);
  return tensor;
}

void compareGradients(Report &report, const Leaves &leaves, const Made &want, const Made &got,
                      const Made &oracle) {
  for (size_t i = 0; i < want.gradients.size(); ++i)
    report.compare(leaves.names[i], withoutUnitStrides(want.gradients[i]),
                   withoutUnitStrides(got.gradients[i]),
                   i < oracle.gradients.size() ? oracle.gradients[i] : at::Tensor(), true);
}

} // namespace

int verifyTraining(const VerifyTraining &options) {
  const c10::AutoGradMode grad(true);
  const Made oracle = options.bars ? oracleOf(options.model) : Made();
  Instance eager = options.model.make(), compiled = options.model.make();
  const Leaves eagerLeaves = leavesOf(eager), leaves = leavesOf(compiled);
  driver::Shadow shadow({}, compiled.program->name());
  Made want, got;
  for (int call = 0; call < kCalls; ++call) {
    want = eagerCall(eager, eagerLeaves, options.model.seed());
    got = shadowedCall(shadow, compiled, leaves, options.model.seed());
  }
  Report report(options.bars);
  compareAll(report, "out", want.results, got.results, oracle.results, true);
  compareGradients(report, leaves, want, got, oracle);
  compareAll(report, "state", tensorsOfState(eager), tensorsOfState(compiled), {}, false);
  Explanation explanation;
  shadow.explain(explanation);
  for (const auto &[reason, count] : explanation.notCompiled)
    fmt::print(stderr, "graphopt: note: through autograd's nodes: {} ({} times)\n", reason, count);
  writeText(options.output, report.finish(fmt::format("{} gradients ({} compiled runs)",
                                                      want.gradients.size(), explanation.compiledRuns)));
  return report.passed() ? 0 : 1;
}

} // namespace graphopt::tools
