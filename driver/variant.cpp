// Training flags are guards too, numbered after the graph's own: the capture cannot see them, but host code
// that is skipped may have asked them.
#include "driver/variant.h"

#include "ir/print.h"
#include "runtime/bind.h"

#include <graphopt/error.h>

#include <algorithm>
#include <chrono>

namespace graphopt::driver {
namespace {

using detail::WatchedModule;

std::vector<bool> flagsOf(const std::vector<WatchedModule> &modules) {
  std::vector<bool> flags;
  for (const WatchedModule &module : modules)
    flags.push_back(module.isTraining(module.module.get()));
  return flags;
}

std::string onOff(bool value) { return value ? "on" : "off"; }

size_t countOps(const ir::Graph &graph) {
  size_t count = 0;
  ir::walk(graph.body(), [&](ir::Op &op) { count += op.kind == ir::Op::Kind::Call; });
  return count;
}

std::string wordOf(const ir::Op &op, std::string_view name) {
  const ir::Attr *attr = op.attr(name);
  return attr && attr->kind() == ir::Attr::Kind::String ? attr->text() : "";
}

} // namespace

std::vector<BorderInfo> bordersOf(const ir::Graph &graph) {
  std::vector<BorderInfo> borders;
  ir::walk(graph.body(), [&](ir::Op &op) {
    if (op.kind != ir::Op::Kind::Border)
      return;
    const ir::Attr *sequence = op.attr("seq");
    borders.push_back({wordOf(op, "reason"), wordOf(op, "at"), sequence ? sequence->asInt() : 0});
  });
  return borders;
}

Variant::Variant(capture::Capture capture, std::vector<WatchedModule> modules)
    : capture_(std::move(capture)), modules_(std::move(modules)), training_(flagsOf(modules_)) {
  capture_.result = {};
  program_.emplace(capture_);
}

/// Inputs that no other call uses meanwhile.
class Variant::Lent {
public:
  explicit Lent(const Variant &variant) : variant_(variant) {
    const std::lock_guard lock(variant.mutex_);
    if (variant.idle_.empty())
      return;
    inputs = std::move(variant.idle_.back());
    variant.idle_.pop_back();
  }
  ~Lent() {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!variant_.isKept(variant_.sources_[i]))
        inputs[i] = at::Tensor();
    const std::lock_guard lock(variant_.mutex_);
    variant_.idle_.push_back(std::move(inputs));
  }
  Lent(const Lent &) = delete;
  Lent &operator=(const Lent &) = delete;
  Inputs inputs;

private:
  const Variant &variant_;
};

Variant::Source Variant::sourceOf(const std::string &name) const {
  for (size_t i = 0; i < capture_.inputs.size(); ++i)
    if (capture_.inputs[i] && capture_.inputs[i]->name == name)
      return {Source::Kind::Argument, i};
  for (size_t i = 0; i < capture_.bound.size(); ++i)
    if (capture_.bound[i].value && capture_.bound[i].value->name == name)
      return {Source::Kind::Bound, i};
  GO_ASSERT(false, "the plan asks for '" + name + "', which the recording does not know");
}

std::vector<passes::PassReport> Variant::compile(const passes::Pipeline &pipeline,
                                                 const passes::ManagerOptions &options) {
  const auto start = std::chrono::steady_clock::now();
  graph_ = capture_.graph.clone();
  std::vector<passes::PassReport> reports = passes::runPipeline(*graph_, pipeline, options);
  auto executor = std::make_unique<runtime::Executor>(runtime::buildPlan(*graph_));
  sources_.clear();
  for (const runtime::PlanInput &input : executor->plan().inputs)
    sources_.push_back(sourceOf(input.name));
  executor_ = std::move(executor);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  compileMilliseconds_ = took.count();
  return reports;
}

std::string Variant::trainingGuard(size_t module) const {
  return fmt::format("guard #{} training(\"{}\") == {}", capture_.graph.guards.size() + module,
                     modules_[module].name, onOff(training_[module]));
}

std::optional<MissInfo> Variant::check(const std::vector<c10::IValue> &args) const {
  if (!program_->holds(args)) {
    if (std::optional<capture::GuardMiss> miss = capture::checkGuards(capture_, args))
      return MissInfo{
          .guard = miss->number, .text = std::move(miss->text), .actual = std::move(miss->actual)};
    program_->remember(args);
  }
  for (size_t i = 0; i < modules_.size(); ++i)
    if (modules_[i].isTraining(modules_[i].module.get()) != training_[i])
      return MissInfo{.guard = static_cast<int>(capture_.graph.guards.size() + i),
                      .text = trainingGuard(i),
                      .actual = onOff(!training_[i])};
  return std::nullopt;
}

std::string Variant::deadOutside() const {
  for (const capture::Bound &bound : capture_.bound)
    if (bound.outside && !bound.get().defined())
      return bound.value->name;
  return "";
}

/// Whether the variant holds the tensor from call to call.
bool Variant::isKept(const Source &source) const {
  return source.kind == Source::Kind::Bound && !capture_.bound[source.index].outside;
}

void Variant::fill(Inputs &inputs, const std::vector<c10::IValue> &args) const {
  inputs.resize(sources_.size());
  const bool areTensors = std::ranges::all_of(
      args, [](const c10::IValue &arg) { return arg.isTensor() && arg.toTensor().defined(); });
  std::vector<at::Tensor> leaves;
  if (!areTensors)
    for (const c10::IValue &arg : args)
      capture::flatten(arg, leaves);
  for (size_t i = 0; i < sources_.size(); ++i) {
    const Source &source = sources_[i];
    if (source.kind == Source::Kind::Argument)
      inputs[i] = areTensors ? args[source.index].toTensor() : leaves[source.index];
    else if (!isKept(source) || !inputs[i].defined())
      inputs[i] = capture_.bound[source.index].get();
  }
}

std::vector<at::Tensor> Variant::inputs(const std::vector<c10::IValue> &args) const {
  Inputs inputs;
  fill(inputs, args);
  return inputs;
}

c10::IValue Variant::run(const std::vector<c10::IValue> &args) const {
  Lent lent(*this);
  fill(lent.inputs, args);
  return runOn(lent.inputs);
}

std::string Variant::inputName(size_t input) const { return executor_->plan().inputs[input].name; }

c10::IValue Variant::runOn(const std::vector<at::Tensor> &inputs) const {
  return capture::unflatten(capture_.output, executor_->run(inputs, symsOf(inputs)));
}

/// Only the graph of a text has any.
runtime::SymValues Variant::symsOf(const std::vector<at::Tensor> &inputs) const {
  const runtime::Plan &plan = executor_->plan();
  runtime::SymValues syms;
  for (size_t i = 0; !plan.syms.empty() && i < inputs.size(); ++i)
    if (const ir::Value *value = graph().find(plan.inputs[i].name); value && inputs[i].defined())
      runtime::bindSyms(value->type, inputs[i], syms);
  return syms;
}

VariantInfo Variant::describe() const {
  VariantInfo info;
  info.hits = hits;
  info.capturedOps = capture_.stats.operators;
  info.plannedOps = compiled() ? countOps(*graph_) : 0;
  info.followedReads = capture_.stats.followedReads;
  info.compileMilliseconds = compileMilliseconds_;
  for (const ir::Guard &guard : capture_.graph.guards)
    info.guards.push_back(ir::print(guard));
  for (size_t i = 0; i < modules_.size(); ++i)
    info.guards.push_back(trainingGuard(i));
  info.borders = bordersOf(capture_.graph);
  info.eagerReason = eagerReason;
  info.graph = ir::print(graph());
  return info;
}

} // namespace graphopt::driver
