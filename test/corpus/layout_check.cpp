// In f64 the two graphs have to agree far below what f32 resolves: then they compute the same, whatever order
// kernels add in.
#include "layout_check.h"

#include "autocast_region.h"
#include "comparison.h"

#include "driver/lowering.h"
#include "ir/print.h"
#include "passes/manager.h"
#include "runtime/catalog.h"
#include "runtime/compare.h"
#include "runtime/interpret.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <graphopt/error.h>

namespace graphopt::corpus {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

/// Test programs are small beside their weights.
constexpr const char *kLayout = "layout{regions=all}";
/// Rules have a few constants in f32.
constexpr double kCore = 1e-6;
/// Share of the largest number by which gradients may differ that are sums of products in bf16.
constexpr double kLow = 0.03;

Instance withGradients(const Factory &make) {
  Instance instance = make();
  for (const capture::NamedTensor &named : instance.program->state())
    if (named.isParameter && named.tensor.is_floating_point())
      named.tensor.requires_grad_();
  for (const c10::IValue &argument : instance.args)
    if (argument.isTensor() && argument.toTensor().is_floating_point())
      argument.toTensor().requires_grad_();
  return instance;
}

/// Images and weights of convolutions with their channels last, as users of eager bring them.
Instance withChannelsLast(const Factory &make) {
  Instance instance = make();
  const auto brought = [](const Tensor &tensor) {
    return tensor.dim() == 4   ? tensor.contiguous(at::MemoryFormat::ChannelsLast)
           : tensor.dim() == 5 ? tensor.contiguous(at::MemoryFormat::ChannelsLast3d)
                               : tensor;
  };
  for (const capture::NamedTensor &named : instance.program->state())
    named.tensor.set_data(brought(named.tensor.detach()));
  for (c10::IValue &argument : instance.args)
    if (argument.isTensor())
      argument = brought(argument.toTensor());
  return withGradients([&] { return std::move(instance); });
}

Tensor cotangent(const ir::Type &type, uint64_t seed) {
  std::vector<int64_t> sizes, strides;
  for (const ir::Dim &size : type.sizes)
    sizes.push_back(size.value());
  for (const ir::Dim &stride : type.stridesOrContiguous())
    strides.push_back(stride.value());
  Tensor made = at::empty_strided(sizes, strides, at::TensorOptions(type.dtype));
  return made.copy_(
      at::rand(sizes, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kDouble)).sub(0.5));
}

class LayoutCheck {
public:
  LayoutCheck(const Factory &make, const LayoutOptions &options) : make_(make), options_(options) {}

  LayoutOutcome run() {
    try {
      steps();
    } catch (const Error &error) {
      fail(error.kind() == Error::Kind::User ? Outcome::Verdict::Refused : Outcome::Verdict::Wrong,
           error.what());
    } catch (const std::exception &error) {
      fail(Outcome::Verdict::Wrong, error.what());
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
    c10::AutoGradMode grad(true);
    step_ = "record";
    Instance recorded = withGradients(make_);
    seedAll(options_.seed);
    {
      const AutocastRegion region(options_.autocast);
      capture_ = capture::record(*recorded.program, recorded.args);
    }
    step_ = "functionalize";
    const ir::Graph plain = passed(capture_->graph, "autocast,functionalize,dce");
    step_ = "layout";
    const ir::Graph last = passed(plain, kLayout);
    if (ir::print(last) == ir::print(plain))
      return; // there is nothing to compare
    if (ir::print(passed(last, kLayout)) != ir::print(last))
      return fail(Outcome::Verdict::Wrong, "a second run of the pass changes something");
    step_ = "lower";
    compare(lowered(plain), lowered(last));
    if (outcome_.verdict == Outcome::Verdict::Equal && !options_.autocast)
      compareWithChannelsLast();
  }

  ir::Graph passed(const ir::Graph &from, const std::string &pipeline) {
    ir::Graph graph = from.clone();
    passes::ManagerOptions manager;
    manager.catalog = &runtime::dispatcherCatalog();
    manager.pieces = &lowering_.pieces();
    const auto reports = passes::runPipeline(graph, passes::parsePipeline(pipeline), manager);
    const auto count = [&](const char *what) {
      const auto found = reports.back().statistics.find(what);
      return found == reports.back().statistics.end() ? 0 : found->second;
    };
    if (pipeline == kLayout && outcome_.convolutions == 0) {
      outcome_.convolutions = count("convolutions in channels-last");
      outcome_.left = count("convolutions left as they are");
      outcome_.conversions = count("conversions");
      outcome_.ofWeights = count("conversions of weights");
    }
    return graph;
  }

  ir::Graph lowered(const ir::Graph &from) { return passed(from, "lower{joint=on},drop-copies,dce"); }

  void compare(const ir::Graph &plain, const ir::Graph &last) {
    step_ = "run";
    const Tensors want = interpreted(plain, false), got = interpreted(last, false);
    step_ = "metadata";
    const size_t outputs = outputCount(plain);
    std::string d = differenceIn("result", part(want, 0, outputs), part(got, 0, outputs), /*shapeOnly=*/true);
    if (d.empty())
      d = differenceIn("gradient", withoutUnitStrides(part(want, outputs, want.size())),
                       withoutUnitStrides(part(got, outputs, got.size())), /*shapeOnly=*/true);
    if (!d.empty())
      return fail(Outcome::Verdict::Wrong, d);
    if (options_.autocast) {
      step_ = "autocast";
      outcome_.compared = want.size();
      d = distanceIn("value", withoutUnitStrides(contiguous(want)), withoutUnitStrides(contiguous(got)), kLow,
                     /*shapeOnly=*/false);
      return d.empty() ? void() : fail(Outcome::Verdict::Wrong, d);
    }
    step_ = "f64";
    const Tensors oracle = interpreted(plain, true), other = interpreted(last, true);
    d = distanceIn("f64: value", withoutUnitStrides(contiguous(oracle)),
                   withoutUnitStrides(contiguous(other)), options_.tolerance64, /*shapeOnly=*/false);
    if (!d.empty())
      return fail(Outcome::Verdict::Wrong, d);
    step_ = "core";
    const ir::Graph core = passed(last, "core");
    d = differenceIn("value", withoutUnitStrides(got), withoutUnitStrides(interpreted(core, false)),
                     /*shapeOnly=*/true);
    if (d.empty())
      d = distanceIn("f64: value", withoutUnitStrides(contiguous(oracle)),
                     withoutUnitStrides(contiguous(interpreted(core, true))), kCore,
                     /*shapeOnly=*/false);
    if (!d.empty())
      return fail(Outcome::Verdict::Wrong, d);
    judge(oracle, want, got);
    got_ = got;
  }

  /// Not every program can be run so: a view may not fit.
  void compareWithChannelsLast() {
    Tensors want;
    try {
      const Instance instance = withChannelsLast(make_);
      seedAll(options_.seed);
      capture_ = capture::record(*instance.program, instance.args);
      want = interpreted(lowered(passed(capture_->graph, "autocast,functionalize,dce")),
                         withChannelsLast(make_));
    } catch (const std::exception &) {
      return;
    }
    for (size_t i = 0; i < std::min(want.size(), got_.size()); ++i)
      outcome_.asChannelsLast += want[i].defined() && got_[i].defined() &&
                                 want[i].sizes() == got_[i].sizes() &&
                                 differenceIn("", contiguous({want[i]}), contiguous({got_[i]})).empty();
  }

  void judge(const Tensors &oracle, const Tensors &want, const Tensors &got) {
    double logs = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      if (!want[i].defined())
        continue;
      ++outcome_.compared;
      const runtime::OracleVerdict verdict = runtime::compareWithOracle(oracle[i], want[i], got[i]);
      const bool isExact = verdict.maxError == 0 || verdict.maxEager == 0;
      logs += isExact ? 0 : std::log(verdict.maxError / verdict.maxEager);
      if (verdict.pass)
        continue;
      if (outcome_.beyond++ == 0)
        outcome_.firstBeyond = fmt::format("value {}: {}", i, verdict.reason);
    }
    if (outcome_.compared > 0)
      outcome_.ratio = std::exp(logs / static_cast<double>(outcome_.compared));
  }

  Tensors interpreted(const ir::Graph &graph, bool fp64) {
    return interpreted(graph, withGradients(make_), fp64);
  }

  Tensors interpreted(const ir::Graph &graph, const Instance &instance, bool fp64 = false) {
    runtime::Environment environment = environmentOf(*capture_, instance);
    uint64_t seed = 7;
    for (const ir::Value *value : graph.declared(ir::Value::Kind::Cotangent))
      environment[value->name] = cotangent(value->type, seed++);
    seedAll(options_.seed);
    Tensors made;
    for (const Tensor &tensor : runtime::interpret(graph, environment, {.fp64 = fp64}))
      made.push_back(tensor.defined() ? tensor.detach() : tensor);
    kept_.push_back(instance.args);
    return made;
  }

  static size_t outputCount(const ir::Graph &graph) {
    for (const ir::NamedAttr &setting : graph.settings)
      if (setting.name == "outputs")
        return setting.value.items().size();
    return graph.returnOp()->operands().size();
  }

  static Tensors part(const Tensors &all, size_t first, size_t last) {
    return {all.begin() + static_cast<ptrdiff_t>(first), all.begin() + static_cast<ptrdiff_t>(last)};
  }

  static Tensors contiguous(Tensors tensors) {
    for (Tensor &tensor : tensors)
      if (tensor.defined())
        tensor = tensor.clone(at::MemoryFormat::Contiguous); // strides of one element too
    return tensors;
  }

  const Factory &make_;
  const LayoutOptions &options_;
  const char *step_ = "";
  LayoutOutcome outcome_;
  driver::Lowering lowering_;
  std::optional<capture::Capture> capture_;
  Tensors got_;
  std::vector<std::vector<c10::IValue>> kept_;
};

} // namespace

LayoutOutcome checkLayout(const Factory &make, const LayoutOptions &options) {
  return LayoutCheck(make, options).run();
}

} // namespace graphopt::corpus
