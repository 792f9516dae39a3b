// The forward plan runs below autograd, so its results have no past; those that require gradients get the
// node as theirs before the frame hands them out. The node's next edges are the live-ins that require
// gradients.
#include "driver/compiled_segment.h"

#include "capture/kept_casts.h"
#include "capture/keys.h"
#include "capture/random_watch.h"
#include "capture/segment_graph.h"
#include "capture/thread_probe.h"
#include "driver/segment_shape.h"
#include "ir/compare.h"
#include "ir/dtype.h"
#include "ir/effects.h"
#include "passes/manager.h"
#include "runtime/catalog.h"
#include "runtime/interpret.h"
#include "runtime/vjp.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/alias.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>
#include <graphopt/error.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_map>

namespace graphopt::driver {
namespace {

using capture::Segment;
using capture::SegmentRun;
using capture::ThreadProbe;
using capture::ThreadWord;
using capture::ValueId;

const Segment &segmentOf(const SegmentRun &run) { return run.node->segment; }

const void *memoryOf(const at::Tensor &tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

std::vector<int64_t> valuesOf(const std::vector<ir::Dim> &dims, const std::vector<ir::SymValue> &syms) {
  std::vector<int64_t> values;
  for (const ir::Dim &dim : dims)
    values.push_back(ir::evaluate(dim, syms).value());
  return values;
}

void setVersion(const at::Tensor &tensor, int64_t version) {
  c10::VariableVersion counter =
      torch::autograd::impl::version_counter(tensor); // a handle on the tensor's own
  if (counter.current_version() != version)
    counter.set_version(version);
}

/// Whether the declared value at `position` has a write-back.
bool isWrittenBack(const ir::Graph &graph, size_t position) {
  const ir::Value *value = graph.declarations()[position];
  return std::ranges::any_of(value->users(), [&](const ir::Op *user) {
    return user->kind == ir::Op::Kind::Writeback && user->operands()[0].value == value;
  });
}

/// Under which backwards may run too: with autocast off, or as the segment itself ran.
std::vector<ThreadWord> otherAutocasts(const Segment &segment, ThreadWord expected) {
  std::vector<ThreadWord> others{0};
  for (const capture::Row &row : segment.rows)
    if (ThreadWord autocast = ThreadProbe::autocastOf(row.thread);
        std::ranges::find(others, autocast) == others.end())
      others.push_back(autocast);
  std::erase(others, expected);
  return others;
}

/// Some gradients are autograd's own, which are asked for without autocast.
bool asksAutograd(const ir::Graph &graph) {
  return std::ranges::any_of(graph.body(), [](const auto &op) { return op->kind == ir::Op::Kind::Vjp; });
}

bool drawsRandomNumbers(const ir::Graph &graph) {
  bool draws = false;
  ir::walk(graph.body(), [&](const ir::Op &op) {
    draws |= op.kind == ir::Op::Kind::Call && ir::effectsOf(op, &runtime::dispatcherCatalog()).random;
  });
  return draws;
}

/// Random numbers as they were drawn then; afterwards the generators go on from where they are now.
class AsBefore {
public:
  AsBefore(const capture::GeneratorStates *then, const std::vector<c10::Device> &devices) {
    if (!then)
      return;
    now_.emplace(devices);
    then->restore();
  }
  ~AsBefore() {
    if (now_)
      now_->restore();
  }
  AsBefore(const AsBefore &) = delete;
  AsBefore &operator=(const AsBefore &) = delete;

private:
  std::optional<capture::GeneratorStates> now_;
};

/// The graph once more, through autograd; gradients of the tensors at `positions`.
std::vector<at::Tensor> gradientsAgain(const ir::Graph &graph, const std::vector<std::string> &names,
                                       const std::vector<size_t> &positions,
                                       const std::vector<bool> &isDifferentiable,
                                       const std::vector<ir::SymValue> &syms,
                                       const std::vector<at::Tensor> &liveIns,
                                       const std::vector<at::Tensor> &cotangents) {
  const bool createGraph = c10::GradMode::is_enabled();
  runtime::Environment environment;
  for (size_t i = 0; i < names.size(); ++i)
    environment[names[i]] = liveIns[i];
  std::vector<at::Tensor> results, roots, given, leaves;
  {
    c10::AutoGradMode grad(true);
    // One live-in may have been made of another (a cast of a weight): each gradient is of what passes through
    // that live-in here.
    for (size_t position : positions)
      leaves.push_back(environment[names[position]] = at::alias(liveIns[position]));
    runtime::InterpretOptions options;
    options.syms = syms;
    results = runtime::interpret(graph, environment, options);
  }
  for (size_t i = 0, next = 0; i < results.size(); ++i) {
    if (!isDifferentiable[i])
      continue;
    const at::Tensor &cotangent = cotangents.at(next++);
    if (!cotangent.defined())
      continue;
    roots.push_back(results[i]);
    given.push_back(cotangent);
  }
  return torch::autograd::grad(roots, leaves, given, /*retain_graph=*/createGraph, createGraph,
                               /*allow_unused=*/true);
}

} // namespace

bool wantsGradients(const SegmentRun &run) {
  const Segment &segment = segmentOf(run);
  for (size_t id = 1; id < run.wanted.size(); ++id)
    if (run.wanted[id] && !segment.values[id].isLiveIn && segment.values[id].metadata.requiresGrad)
      return true;
  return false;
}

std::string reasonAgainst(const SegmentRun &run) {
  if (run.rows != segmentOf(run).size())
    return "a part of it ran";
  if (!run.scalars.empty())
    return "numbers differ from the recorded ones";
  return "";
}

CompiledSegment::CompiledSegment(const Segment &segment, const std::vector<const Segment *> &others,
                                 const std::vector<ValueId> &wanted, const ResultVersions &versions,
                                 const BackwardAutocast &autocast, Lowering &lowering)
    : name_(fmt::format("segment {}", segment.number)), autocast_(autocast), autocasts_{autocast.expected} {
  if (std::string reason = reasonForAutograd(segment, wanted); !reason.empty())
    userError(reason);
  liveIns_ = segment.liveIns;
  passes::ManagerOptions options;
  options.catalog = &runtime::dispatcherCatalog();
  options.pieces = &lowering.pieces();
  options.verifyEach = false;
  const ir::Graph functional = functionalOf(segment, others, wanted, options);
  noteEffects(segment, functional);
  std::vector<passes::PassReport> reports;
  const ir::Graph joint = lowered(functional, autocast.expected, options, &reports);
  noteOpaque(reports);
  if (!surface_ && !asksAutograd(joint))
    for (const ThreadWord other : otherAutocasts(segment, autocast.expected))
      if (ir::difference(joint, lowered(functional, other, options)).empty())
        autocasts_.push_back(other);
  makePlans(joint);
  for (size_t i = 0; i < wanted.size(); ++i)
    outputs_.push_back(
        {wanted[i], parts_.outputs.at(i), versions.contains(wanted[i]) ? versions.at(wanted[i]) : 0});
  if (!surface_ && std::ranges::count_if(outputs_, &Output::isDifferentiable) > 1)
    userError(
        "several results with gradients leave it, and it writes memory from outside: with a cotangent for "
        "some of them it would have to run again");
  mapInputs(joint);
}

/// The captured graph with its kept casts as inputs, in the functional form.
ir::Graph CompiledSegment::functionalOf(const Segment &segment, const std::vector<const Segment *> &others,
                                        const std::vector<ValueId> &wanted,
                                        const passes::ManagerOptions &options) {
  auto [graph, sizes] =
      capture::sizedGraphOf(segment, others, fmt::format("segment{}", segment.number), &wanted);
  sizes_ = std::move(sizes);
  graph.guards.clear();
  casts_ = SegmentCasts(graph, segment, *options.pieces);
  passes::runPipeline(graph, passes::parsePipeline("functionalize,dce"), options);
  return std::move(graph);
}

/// What it draws and writes; without writes to memory from outside it may run again.
void CompiledSegment::noteEffects(const Segment &segment, const ir::Graph &functional) {
  if (drawsRandomNumbers(functional))
    drawsOn_ = {segment.device};
  if (!segment.writesLiveIns) {
    surface_ = std::make_shared<const ir::Graph>(functional.clone());
    return;
  }
  for (size_t i = 0; i < liveIns_.size(); ++i)
    if (uint32_t times = timesWritten(segment, liveIns_[i]); times > 0 || isWrittenBack(functional, i))
      written_.push_back({i, times});
}

/// Until kernels fuse what runs again into the backward, running again costs more than keeping.
void CompiledSegment::makePlans(const ir::Graph &joint) {
  parts_ = passes::partition(joint, &runtime::dispatcherCatalog(), {.recompute = false});
  forward_ = std::make_shared<const runtime::Executor>(runtime::buildPlan(parts_.forward));
  backward_ = std::make_shared<const runtime::Executor>(runtime::buildPlan(parts_.backward));
}

/// lower counts them as "opaque: NAME: WHY", and "opaque backward: NAME: WHY".
void CompiledSegment::noteOpaque(const std::vector<passes::PassReport> &reports) {
  constexpr std::string_view kWhole = "opaque: ", kBackward = "opaque backward: ";
  for (const passes::PassReport &report : reports)
    for (const auto &[what, count] : report.statistics)
      if (what.starts_with(kWhole))
        opaque_[what.substr(kWhole.size())] += static_cast<uint64_t>(count);
      else if (what.starts_with(kBackward))
        opaque_["the backward of " + what.substr(kBackward.size())] += static_cast<uint64_t>(count);
}

/// Forward and backward in one graph, for backwards under that autocast.
ir::Graph CompiledSegment::lowered(const ir::Graph &functional, ThreadWord autocast,
                                   const passes::ManagerOptions &options,
                                   std::vector<passes::PassReport> *reports) const {
  ir::Graph graph = functional.clone();
  if (autocast != 0) {
    const c10::DeviceType device = functional.device.isCpu() ? c10::kCPU : c10::kCUDA;
    if (ThreadProbe::autocastOf(autocast) != ThreadProbe::autocastOf(autocast, device))
      userError("its backward runs under autocast of another device than its own");
    const auto dtype = ir::dtypeName(ThreadProbe::autocastDtype(autocast, device));
    graph.settings.push_back({"backward_amp", ir::Attr::word(std::string(dtype))});
  }
  std::vector<passes::PassReport> made =
      passes::runPipeline(graph, passes::parsePipeline("lower{joint=on},lean"), options);
  if (reports)
    *reports = std::move(made);
  std::erase_if(graph.settings, [](const ir::NamedAttr &setting) { return setting.name == "backward_amp"; });
  if (autocast != 0 && asksAutograd(graph))
    userError("its backward runs under autocast, and some operator cannot be taken apart for that");
  return graph;
}

/// Where the plans' inputs come from, by the names that graphs and plans share.
void CompiledSegment::mapInputs(const ir::Graph &joint) {
  std::unordered_map<std::string, size_t> liveIns, residuals, cotangents;
  for (const ir::Value *value : joint.declarations()) {
    if (names_.size() == inputCount())
      break; // constants and cotangents follow
    if (value->type.grad)
      withGradient_.push_back(names_.size());
    liveIns.emplace(value->name, names_.size());
    names_.push_back(value->name);
  }
  for (const runtime::PlanInput &input : forward_->plan().inputs)
    forwardInputs_.push_back(liveIns.at(input.name));
  for (const passes::Residual &residual : parts_.residuals)
    if (!residual.isDeclared)
      residuals.emplace(residual.name, residuals.size());
  for (const ir::Value *value : parts_.backward.declared(ir::Value::Kind::Cotangent))
    cotangents.emplace(value->name, cotangents.size());
  for (const runtime::PlanInput &input : backward_->plan().inputs) {
    if (auto residual = residuals.find(input.name); residual != residuals.end()) {
      backwardInputs_.push_back({BackwardInput::Kind::Residual, residual->second, {}});
    } else if (auto liveIn = liveIns.find(input.name); liveIn != liveIns.end()) {
      backwardInputs_.push_back({BackwardInput::Kind::LiveIn, liveIn->second, {}});
      savedLiveIns_.push_back(liveIn->second);
    } else {
      backwardInputs_.push_back({BackwardInput::Kind::Cotangent, cotangents.at(input.name),
                                 parts_.backward.find(input.name)->type.stridesOrContiguous()});
    }
  }
}

const at::Tensor &CompiledSegment::inputAt(const SegmentRun &run, size_t position) const {
  return position < liveIns_.size() ? run.tensors[liveIns_[position]]
                                    : casts_.at(run, position - liveIns_.size());
}

std::vector<at::Tensor> CompiledSegment::inputsOf(const SegmentRun &run) const {
  std::vector<at::Tensor> inputs;
  for (size_t position : forwardInputs_)
    inputs.push_back(inputAt(run, position));
  return inputs;
}

/// The node outlives the callable: what it needs is shared or copied.
std::shared_ptr<SegmentNodeBackward> CompiledSegment::makeNode(const SegmentRun &run,
                                                               const std::vector<ir::SymValue> &syms) const {
  SegmentNodeBackward::Ways ways;
  ways.liveIns = savedLiveIns_;
  ways.autocast = autocasts_;
  ways.seenAutocast = autocast_.seen;
  ways.keepsValues = std::ranges::any_of(backwardInputs_, [](const BackwardInput &input) {
    return input.kind != BackwardInput::Kind::Cotangent;
  });
  ways.plan = [executor = backward_, inputs = backwardInputs_, syms](const SegmentNodeBackward::Saved &saved,
                                                                     std::vector<at::Tensor> cotangents) {
    std::vector<at::Tensor> given;
    for (const BackwardInput &input : inputs)
      given.push_back(input.kind == BackwardInput::Kind::Residual ? saved.residuals.at(input.index)
                      : input.kind == BackwardInput::Kind::LiveIn
                          ? saved.liveIns.at(input.index)
                          : runtime::laidOut(cotangents.at(input.index), valuesOf(input.strides, syms)));
    return executor->run(given, syms);
  };
  std::shared_ptr<const capture::GeneratorStates> draws;
  if (surface_ && !drawsOn_.empty())
    draws = std::make_shared<const capture::GeneratorStates>(drawsOn_);
  if (surface_)
    ways.again = [draws, devices = drawsOn_, graph = surface_, names = names_, positions = withGradient_,
                  outputs = outputs_,
                  syms](const SegmentNodeBackward::Saved &saved, std::vector<at::Tensor> cotangents) {
      std::vector<bool> isDifferentiable;
      for (const Output &output : outputs)
        isDifferentiable.push_back(output.isDifferentiable);
      const AsBefore generators(draws.get(), devices);
      return gradientsAgain(*graph, names, positions, isDifferentiable, syms, saved.liveIns, cotangents);
    };
  auto node = std::make_shared<SegmentNodeBackward>(name_, ways);
  torch::autograd::edge_list edges;
  for (size_t position : withGradient_)
    edges.push_back(torch::autograd::impl::gradient_edge(inputAt(run, position)));
  node->set_next_edges(std::move(edges));
  return node;
}

/// A write-back is one copy, whatever the operators were that wrote: versions are put where those leave them.
std::vector<at::Tensor> CompiledSegment::runForward(const SegmentRun &run,
                                                    const std::vector<ir::SymValue> &syms) const {
  std::vector<int64_t> versions;
  for (const Written &written : written_)
    versions.push_back(run.tensors[liveIns_[written.liveIn]]._version());
  std::vector<at::Tensor> made = forward_->run(inputsOf(run), syms);
  for (size_t i = 0; i < written_.size(); ++i)
    setVersion(run.tensors[liveIns_[written_[i].liveIn]], versions[i] + written_[i].times);
  return made;
}

void CompiledSegment::run(const SegmentRun &run, const std::vector<ir::SymValue> &syms) const {
  c10::impl::ExcludeDispatchKeyGuard notRecorded(capture::kCaptureHigh);
  for (const capture::TakenCast &taken : run.casts)
    if (taken.awaitsHistory)
      capture::giveHistory(run.tensors[taken.value], taken.cast);
  const std::shared_ptr<SegmentNodeBackward> node =
      makeNode(run, syms); // first: it notes the generators' states
  const std::vector<at::Tensor> made = runForward(run, syms);
  for (size_t i = 0; i < inputCount(); ++i)
    node->saveLiveIn(inputAt(run, i));
  std::vector<at::Tensor> taken;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].isDifferentiable)
      torch::autograd::set_history(made[i], node);
    setVersion(made[i], outputs_[i].version);
    taken.push_back(run.take(outputs_[i].value, made[i]));
  }
  save(*node, run, made, taken);
}

/// A residual that is itself a result is saved as such; one that shares memory with something the program
/// sees is watched.
void CompiledSegment::save(SegmentNodeBackward &node, const SegmentRun &run,
                           const std::vector<at::Tensor> &made, const std::vector<at::Tensor> &taken) const {
  std::unordered_map<const c10::TensorImpl *, size_t> results;
  std::unordered_map<const void *, at::Tensor> visible;
  for (size_t i = 0; i < taken.size(); ++i) {
    results.emplace(made[i].unsafeGetTensorImpl(), i);
    visible.emplace(memoryOf(taken[i]), taken[i]);
  }
  for (size_t i = 0; i < inputCount(); ++i)
    visible.emplace(memoryOf(inputAt(run, i)), inputAt(run, i));
  for (size_t i = outputs_.size(); i < made.size(); ++i) {
    if (auto result = results.find(made[i].unsafeGetTensorImpl()); result != results.end()) {
      node.saveOutput(taken[result->second]);
      continue;
    }
    node.saveResidual(made[i]);
    if (auto memory = visible.find(memoryOf(made[i])); memory != visible.end() && memory->first)
      node.watch(i - outputs_.size(), memory->second);
  }
}

} // namespace graphopt::driver
