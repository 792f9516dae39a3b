// Cotangents are random and have the layout of the outputs, in eager as well.
#include "lowered_check.h"

#include "autocast_region.h"
#include "comparison.h"

#include "driver/lowering.h"
#include "ir/print.h"
#include "passes/manager.h"
#include "passes/partition.h"
#include "runtime/catalog.h"
#include "runtime/compare.h"
#include "runtime/interpret.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <chrono>
#include <fmt/format.h>
#include <graphopt/error.h>
#include <sstream>
#include <torch/csrc/autograd/autograd.h>

namespace graphopt::corpus {
namespace {

using at::Tensor;
using Environment = runtime::Environment;

constexpr double kTolerance64 = 1e-9;

double now() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool takesGradients(const Tensor &tensor) {
  return tensor.defined() && (tensor.is_floating_point() || tensor.is_complex());
}

/// What one run gives and leaves behind.
struct Seen {
  std::vector<Tensor> results, gradients, arguments, state;
};

class LoweredCheck {
public:
  LoweredCheck(const Factory &make, const LoweredOptions &options) : make_(make), options_(options) {}

  LoweredOutcome run() {
    try {
      steps();
    } catch (const Error &error) {
      const bool isUser = error.kind() == Error::Kind::User;
      fail(isUser ? Outcome::Verdict::Refused : Outcome::Verdict::Wrong, error.what());
    } catch (const std::exception &error) {
      const bool isEagers =
          step_ == std::string("eager") || (step_ == std::string("record") && failsInEager());
      fail(isEagers ? Outcome::Verdict::Invalid : Outcome::Verdict::Wrong, error.what());
    }
    return outcome_;
  }

private:
  void fail(Outcome::Verdict verdict, const std::string &why) {
    outcome_.verdict = verdict;
    outcome_.step = step_;
    outcome_.reason = why.substr(0, why.find('\n')).substr(0, 300);
  }

  void steps() {
    c10::AutoGradMode grad(options_.gradients);
    step_ = "record";
    Instance recorded = makeInstance();
    seedAll(options_.seed);
    {
      const AutocastRegion region(options_.autocast);
      capture_ = capture::record(*recorded.program, recorded.args);
    }
    lower();
    runEagerly();
    compareWithGraph();
    if (!eager_.gradients.empty() && options_.coreTolerance == 0 &&
        outcome_.verdict == Outcome::Verdict::Equal)
      compareParts();
  }

  /// Operators that want equal dtypes do not get them from autocast everywhere.
  bool failsInEager() const {
    try {
      const Instance instance = makeInstance();
      const AutocastRegion region(options_.autocast);
      instance.program->call(instance.args);
      return false;
    } catch (const std::exception &) {
      return true;
    }
  }

  Instance makeInstance() const {
    Instance instance = make_();
    if (!options_.gradients)
      return instance;
    for (const capture::NamedTensor &named : instance.program->state())
      if (named.isParameter && takesGradients(named.tensor))
        named.tensor.requires_grad_();
    for (size_t i = 0; i < instance.args.size(); ++i) {
      const auto position = static_cast<int64_t>(i);
      const bool isWanted = options_.allArguments ||
                            std::ranges::find(options_.arguments, position) != options_.arguments.end();
      if (isWanted && instance.args[i].isTensor() && takesGradients(instance.args[i].toTensor()))
        instance.args[i].toTensor().requires_grad_();
    }
    return instance;
  }

  void lower() {
    step_ = "lower";
    graph_ = lowered(options_.kernels);
    if (options_.kernels)
      checkWithoutKernels();
    if (options_.coreTolerance > 0) {
      lowered_ = graph_->clone();
      step_ = "decompose";
      passes::ManagerOptions manager;
      manager.catalog = &runtime::dispatcherCatalog();
      passes::runPipeline(*graph_, passes::parsePipeline("core"), manager);
    }
    outcome_.all = passes::countOps(*graph_);
  }

  ir::Graph lowered(bool kernels) {
    ir::Graph graph = capture_->graph.clone();
    driver::Lowering lowering({}, {.kernels = kernels});
    passes::ManagerOptions manager;
    manager.catalog = &runtime::dispatcherCatalog();
    manager.pieces = &lowering.pieces();
    passes::runPipeline(graph, passes::parsePipeline("autocast,functionalize,dce"), manager);
    outcome_.captured = passes::countOps(graph);
    const double start = now();
    const auto reports =
        passes::runPipeline(graph,
                            passes::parsePipeline(options_.gradients ? "lower{joint=on},drop-copies,dce"
                                                                     : "lower,drop-copies,dce"),
                            manager);
    outcome_.lowerMs = now() - start;
    for (const auto &[what, count] : reports.front().statistics)
      if (what.starts_with("opaque"))
        outcome_.opaque += static_cast<size_t>(count);
    outcome_.probes = lowering.counts().forwards + lowering.counts().backwards;
    outcome_.withKernels = lowering.counts().withKernels;
    for (const auto &[name, count] : lowering.counts().kernels)
      outcome_.kernels.push_back(name);
    return graph;
  }

  /// Probes that run no kernels have to show the same graph, sizes and strides included.
  void checkWithoutKernels() {
    std::istringstream with(ir::print(*graph_)), without(ir::print(lowered(false)));
    std::string a, b;
    while (std::getline(with, a) && std::getline(without, b))
      if (a != b)
        throw std::runtime_error(fmt::format("without kernels '{}', with kernels '{}'", b, a));
  }

  size_t outputCount() const {
    for (const ir::NamedAttr &setting : graph_->settings)
      if (setting.name == "outputs")
        return setting.value.items().size();
    return graph_->returnOp()->operands().size();
  }

  /// The tensors that have gradients, in the order in which the graph returns these.
  std::vector<Tensor> leaves(const Environment &environment) const {
    std::vector<Tensor> leaves;
    for (const ir::Value *value : graph_->declarations())
      if (value->type.grad)
        leaves.push_back(environment.at(value->name));
    return leaves;
  }

  void take(Seen &seen, const Instance &instance, std::vector<Tensor> results) {
    auto plain = [](const std::vector<Tensor> &tensors) {
      std::vector<Tensor> out;
      for (const Tensor &tensor : tensors)
        out.push_back(tensor.defined() ? tensor.detach() : tensor);
      return out;
    };
    seen.results = plain(results);
    seen.arguments = plain(leavesOf(instance.args));
    for (const capture::NamedTensor &named : instance.program->state())
      seen.state.push_back(named.tensor.detach());
  }

  void runEagerly() {
    step_ = "eager";
    Instance instance = makeInstance();
    seedAll(options_.seed);
    const double start = now();
    std::vector<Tensor> results, roots;
    {
      const AutocastRegion region(options_.autocast);
      results = leavesOf({instance.program->call(instance.args)});
    }
    for (const Tensor &result : results)
      if (result.defined() && result.requires_grad()) {
        roots.push_back(result);
        cotangents_.push_back(cotangentOf(result));
      }
    if (!roots.empty())
      eager_.gradients =
          torch::autograd::grad(roots, leaves(environmentOf(*capture_, instance)), cotangents_,
                                /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
    outcome_.eagerMs = now() - start;
    take(eager_, instance, std::move(results));
    kept_.push_back(std::move(instance));
  }

  Tensor cotangentOf(const Tensor &result) const {
    c10::NoGradGuard noGrad;
    Tensor like = result.detach();
    Tensor cotangent = at::empty_strided(like.sizes(), like.strides(), like.options());
    at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(7 + cotangents_.size()));
    Tensor part = cotangent;
    for (int64_t d = 0; d < part.dim(); ++d)
      if (part.stride(d) == 0 && part.size(d) > 1)
        part = part.narrow(d, 0, 1);
    part.copy_(at::rand(part.sizes(), generator,
                        at::TensorOptions().dtype(part.is_complex() ? at::kComplexDouble : at::kDouble))
                   .sub(0.5));
    return cotangent;
  }

  Environment environmentFor(const Instance &instance) const {
    Environment environment = environmentOf(*capture_, instance);
    const std::vector<ir::Value *> cotangents = graph_->declared(ir::Value::Kind::Cotangent);
    for (size_t i = 0; i < cotangents.size(); ++i)
      environment[cotangents[i]->name] = cotangents_[i];
    return environment;
  }

  void compareWithGraph() {
    step_ = "interpret";
    Instance instance = makeInstance();
    if (graph_->declared(ir::Value::Kind::Cotangent).size() != cotangents_.size())
      return fail(Outcome::Verdict::Wrong,
                  fmt::format("{} outputs require gradients, eager has {}",
                              graph_->declared(ir::Value::Kind::Cotangent).size(), cotangents_.size()));
    const Environment environment = environmentFor(instance);
    seedAll(options_.seed);
    std::vector<Tensor> all = runtime::interpret(*graph_, environment);
    Seen seen;
    const auto split = all.begin() + static_cast<ptrdiff_t>(outputCount());
    seen.gradients.assign(split, all.end());
    take(seen, instance, resultLeaves(*capture_, {all.begin(), split}));
    compare(seen);
    kept_.push_back(std::move(instance));
  }

  /// `first`: the place of the first among what the graph returns; nothing for what it leaves elsewhere.
  std::string differenceOf(const char *what, const std::vector<Tensor> &want, const std::vector<Tensor> &got,
                           std::optional<size_t> first = {}) {
    return options_.coreTolerance > 0 ? distanceOf(what, want, got, first)
                                      : differenceIn(what, want, got, options_.shapeOnly);
  }

  /// Numbers further apart than that are fine where the core graph and the lowered one agree in f64: a
  /// rounding decided which way a comparison goes, or nearly everything cancels.
  std::string distanceOf(const char *what, const std::vector<Tensor> &want, const std::vector<Tensor> &got,
                         std::optional<size_t> first) {
    const std::string d = distanceIn(what, want, got, options_.coreTolerance, options_.shapeOnly);
    if (!first || options_.shapeOnly || differenceIn("", want, got).empty())
      return d;
    const std::vector<Tensor> oracle = inF64(*lowered_, *first, want.size());
    if (!oracle.empty())
      judge(what, oracle, want, got);
    if (d.empty())
      return d;
    const std::vector<Tensor> core = inF64(*graph_, *first, want.size());
    if (oracle.empty() || core.empty() || !distanceIn("", oracle, core, kTolerance64, false).empty())
      return d;
    outcome_.inF64Alone = true;
    return "";
  }

  /// By the error rule, which is asked of programs, not of single operators: what breaks it is counted.
  void judge(const char *what, const std::vector<Tensor> &oracle, const std::vector<Tensor> &want,
             const std::vector<Tensor> &got) {
    for (size_t i = 0; i < want.size() && !outcome_.isBeyond; ++i) {
      if (!want[i].defined())
        continue;
      const runtime::OracleVerdict verdict = runtime::compareWithOracle(oracle[i], want[i], got[i]);
      outcome_.isBeyond = !verdict.pass;
      if (!verdict.pass)
        outcome_.reason = fmt::format("{} {} in f64: {}", what, i, verdict.reason);
    }
  }

  /// So many of what the graph returns, in f64; nothing where operators of low precision alone are in it.
  std::vector<Tensor> inF64(const ir::Graph &graph, size_t first, size_t count) const {
    try {
      const Instance instance = makeInstance();
      seedAll(options_.seed);
      return part(runtime::interpret(graph, environmentFor(instance), {.fp64 = true}), first, count);
    } catch (const std::exception &) {
      return {};
    }
  }

  static std::vector<Tensor> part(const std::vector<Tensor> &all, size_t first, size_t count) {
    return {all.begin() + static_cast<ptrdiff_t>(first), all.begin() + static_cast<ptrdiff_t>(first + count)};
  }

  void compare(const Seen &seen) {
    std::string d = differenceOf("result", eager_.results, seen.results, 0);
    if (d.empty() && !eager_.gradients.empty())
      d = differenceOf("gradient", withoutUnitStrides(eager_.gradients), withoutUnitStrides(seen.gradients),
                       outputCount());
    if (d.empty())
      d = differenceOf("argument", eager_.arguments, seen.arguments);
    if (d.empty())
      d = differenceOf("state tensor", eager_.state, seen.state);
    outcome_.gradients = eager_.gradients.size();
    if (!d.empty())
      fail(Outcome::Verdict::Wrong, d);
  }

  /// The joint graph cut in two, with values that run again: gradients as eager's as well.
  void compareParts() {
    step_ = "partition";
    const passes::Partitioned parts = passes::partition(*graph_, &runtime::dispatcherCatalog());
    Instance instance = makeInstance();
    Environment environment = environmentFor(instance);
    seedAll(options_.seed);
    const std::vector<Tensor> made = runtime::interpret(parts.forward, environment);
    size_t next = parts.outputs.size();
    for (const passes::Residual &residual : parts.residuals)
      if (!residual.isDeclared)
        environment[residual.name] = made.at(next++);
    const std::vector<Tensor> gradients = runtime::interpret(parts.backward, environment);
    std::string d = differenceIn("gradient", withoutUnitStrides(eager_.gradients),
                                 withoutUnitStrides(gradients), options_.shapeOnly);
    if (!d.empty())
      fail(Outcome::Verdict::Wrong, d);
  }

  const Factory &make_;
  const LoweredOptions &options_;
  const char *step_ = "";
  LoweredOutcome outcome_;
  std::optional<capture::Capture> capture_;
  std::optional<ir::Graph> graph_, lowered_;
  std::vector<Tensor> cotangents_;
  Seen eager_;
  std::vector<Instance> kept_;
};

} // namespace

LoweredOutcome checkLowered(const Factory &make, const LoweredOptions &options) {
  return LoweredCheck(make, options).run();
}

} // namespace graphopt::corpus
