// Most segments are one part; see passes/graph_parts.h for when they are more.
#include "driver/compiled_segment.h"

#include "capture/kept_casts.h"
#include "capture/keys.h"
#include "capture/segment_graph.h"
#include "capture/thread_probe.h"
#include "driver/segment_shape.h"
#include "passes/cast_uses.h"
#include "runtime/catalog.h"
#include "runtime/interpret.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>
#include <graphopt/error.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <set>

namespace graphopt::driver {
namespace {

using capture::Segment;
using capture::SegmentRun;
using capture::ThreadProbe;
using capture::ThreadWord;
using capture::ValueId;

const Segment &segmentOf(const SegmentRun &run) { return run.node->segment; }

void setVersion(const at::Tensor &tensor, int64_t version) {
  c10::VariableVersion counter =
      torch::autograd::impl::version_counter(tensor); // a handle on the tensor's own
  if (counter.current_version() != version)
    counter.set_version(version);
}

/// Whether the declared value has a write-back.
bool isWrittenBack(const ir::Value &value) {
  return std::ranges::any_of(value.users(), [&](const ir::Op *user) {
    return user->kind == ir::Op::Kind::Writeback && user->operands()[0].value == &value;
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

/// The value of the whole graph that a part's input stands for.
const std::string &sourceOf(const passes::GraphPart &part, const std::string &input) {
  const auto use = part.uses.find(input);
  return use == part.uses.end() ? input : use->second;
}

/// Of the whole graph: values whose memory the segment writes, and views of it that parts give.
std::set<std::string> changedBy(const std::vector<passes::GraphPart> &parts) {
  std::set<std::string> changed;
  const auto isChanged = [&](const passes::GraphPart &part) {
    return [&](const ir::Value *value) { return changed.contains(sourceOf(part, value->name)); };
  };
  for (const passes::GraphPart &part : parts)
    for (const ir::Value *value : part.graph.declarations())
      if (isWrittenBack(*value))
        changed.insert(sourceOf(part, value->name));
  for (const passes::GraphPart &part : parts)
    if (part.isViews && std::ranges::any_of(part.graph.declarations(), isChanged(part)))
      for (const passes::GraphPart::Output &output : part.outputs)
        changed.insert(output.name);
  return changed;
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
                                 BackwardPlanning planning, Lowering &lowering) {
  if (std::string reason = reasonForAutograd(segment, wanted); !reason.empty())
    userError(reason);
  liveIns_ = segment.liveIns;
  passes::ManagerOptions options;
  options.catalog = &runtime::dispatcherCatalog();
  options.pieces = &lowering.pieces();
  options.verifyEach = false;
  const ir::Graph functional = functionalOf(segment, others, wanted, options);
  for (size_t i = 0; i < liveIns_.size() + casts_.size(); ++i)
    slotOf(functional.declarations()[i]->name);
  planning.otherAutocasts = otherAutocasts(segment, planning.key.autocast);
  std::vector<passes::GraphPart> parts =
      passes::partsOf(functional, resultFacts(segment, wanted), *options.pieces, options.catalog);
  const std::set<std::string> changed = changedBy(parts);
  for (passes::GraphPart &part : parts) {
    planning.mayRunAgain = std::ranges::none_of(part.graph.declarations(), [&](const ir::Value *value) {
      return changed.contains(sourceOf(part, value->name));
    });
    addPart(part, segment, wanted, versions, planning, options);
  }
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
  // Dead code stays until gradients are there: a write that nobody reads may be an error at backward.
  passes::runPipeline(graph, passes::parsePipeline("functionalize"), options);
  return std::move(graph);
}

size_t CompiledSegment::slotOf(const std::string &name) {
  return slots_.emplace(name, slots_.size()).first->second;
}

/// Whether what an earlier part gives requires gradients is known by now.
void CompiledSegment::takeGradFlags(passes::GraphPart &part) const {
  for (ir::Value *input : part.graph.declarations()) {
    const auto slot = slots_.find(sourceOf(part, input->name));
    for (const Part &earlier : parts_)
      for (const Output &output : earlier.outputs)
        if (slot != slots_.end() && output.slot == slot->second)
          input->type.grad = input->type.grad && output.isDifferentiable;
  }
}

void CompiledSegment::addPart(passes::GraphPart &part, const Segment &segment,
                              const std::vector<ValueId> &wanted, const ResultVersions &versions,
                              const BackwardPlanning &planning, const passes::ManagerOptions &options) {
  constexpr uint32_t kCrossing = 1U << 31; // numbers of values that only parts see, apart from all ids
  takeGradFlags(part);
  Part made;
  std::vector<uint32_t> numbers;
  for (const passes::GraphPart::Output &output : part.outputs) {
    const ValueId id = output.position ? wanted.at(*output.position) : 0;
    const size_t slot = slotOf(output.name);
    made.outputs.push_back({id, versions.contains(id) ? versions.at(id) : 0, slot});
    numbers.push_back(id != 0 ? id : kCrossing | static_cast<uint32_t>(slot));
  }
  made.written = writtenBy(part.graph, segment);
  if (part.isViews) {
    const passes::NeedsGrad needsGrad = passes::likelyNeedsGrad(part.graph);
    for (size_t i = 0; i < made.outputs.size(); ++i)
      made.outputs[i].isDifferentiable = needsGrad.at(part.graph.returnOp()->operands()[i].value);
    for (const ir::Value *value : part.graph.declarations())
      made.names.push_back(value->name);
    made.views = std::make_shared<const ir::Graph>(std::move(part.graph));
  } else {
    made.compiled = std::make_shared<const CompiledPart>(
        part.graph, fmt::format("segment {}", segment.number), numbers, segment.device, planning, options);
    for (size_t i = 0; i < made.outputs.size(); ++i)
      made.outputs[i].isDifferentiable = made.compiled->isDifferentiable(i);
    made.names = made.compiled->inputs();
  }
  for (const std::string &input : made.names)
    made.inputs.push_back(slots_.at(sourceOf(part, input)));
  parts_.push_back(std::move(made));
}

std::vector<CompiledSegment::Written> CompiledSegment::writtenBy(const ir::Graph &functional,
                                                                 const Segment &segment) const {
  std::vector<Written> written;
  for (size_t i = 0; i < liveIns_.size(); ++i)
    for (const ir::Value *value : functional.declarations())
      if (const auto slot = slots_.find(value->name); slot != slots_.end() && slot->second == i)
        if (isWrittenBack(*value))
          written.push_back({i, timesWritten(segment, liveIns_[i])});
  return written;
}

std::optional<std::vector<ir::SymValue>> CompiledSegment::sizesOf(const Segment &segment) const {
  std::optional<std::vector<ir::SymValue>> syms = sizes_->of(segment);
  const bool holds = syms && std::ranges::all_of(parts_, [&](const Part &part) {
                       return !part.compiled || part.compiled->holdsFor(*syms);
                     });
  return holds ? syms : std::nullopt;
}

std::map<std::string, uint64_t> CompiledSegment::opaque() const {
  std::map<std::string, uint64_t> all;
  for (const Part &part : parts_)
    if (part.compiled)
      for (const auto &[what, count] : part.compiled->opaque())
        all[what] += count;
  return all;
}

void CompiledSegment::run(const SegmentRun &run, const std::vector<ir::SymValue> &syms) const {
  c10::impl::ExcludeDispatchKeyGuard notRecorded(capture::kCaptureHigh);
  for (const capture::TakenCast &taken : run.casts)
    if (taken.awaitsHistory)
      capture::giveHistory(run.tensors[taken.value], taken.cast);
  std::vector<at::Tensor> slots(slots_.size());
  for (size_t i = 0; i < liveIns_.size(); ++i)
    slots[i] = run.tensors[liveIns_[i]];
  for (size_t i = 0; i < casts_.size(); ++i)
    slots[liveIns_.size() + i] = casts_.at(run, i);
  for (const Part &part : parts_) {
    std::vector<at::Tensor> inputs;
    for (size_t slot : part.inputs)
      inputs.push_back(slots[slot]);
    const std::vector<at::Tensor> shown = part.compiled ? runPlan(part, run, syms, std::move(inputs), slots)
                                                        : runViews(part, run, syms, inputs);
    for (size_t i = 0; i < shown.size(); ++i)
      slots[part.outputs[i].slot] = shown[i];
  }
}

/// A write-back is one copy, whatever the operators were that wrote: versions are put where those leave them.
std::vector<at::Tensor> CompiledSegment::runPlan(const Part &part, const SegmentRun &run,
                                                 const std::vector<ir::SymValue> &syms,
                                                 std::vector<at::Tensor> inputs,
                                                 const std::vector<at::Tensor> &slots) const {
  std::vector<int64_t> versions;
  for (const Written &written : part.written)
    versions.push_back(slots[written.liveIn].is_inference() ? 0 : slots[written.liveIn]._version());
  CompiledPart::Run step{std::move(inputs), syms};
  part.compiled->run(step);
  for (size_t i = 0; i < versions.size(); ++i)
    if (const at::Tensor &tensor = slots[part.written[i].liveIn]; !tensor.is_inference())
      setVersion(tensor, versions[i] + part.written[i].times);
  std::vector<at::Tensor> shown;
  for (size_t i = 0; i < part.outputs.size(); ++i) {
    const Output &output = part.outputs[i];
    if (output.value != 0)
      setVersion(step.made[i], output.version);
    shown.push_back(output.value != 0 ? run.take(output.value, step.made[i]) : step.made[i]);
  }
  part.compiled->save(step, shown);
  return shown;
}

/// As the rows would run: their results share versions and histories with what they are views of. take()
/// moves a tensor that nobody else holds into the program's own; of another it would make a copy that is no
/// view.
std::vector<at::Tensor> CompiledSegment::runViews(const Part &part, const SegmentRun &run,
                                                  const std::vector<ir::SymValue> &syms,
                                                  const std::vector<at::Tensor> &inputs) const {
  runtime::Environment environment;
  for (size_t i = 0; i < inputs.size(); ++i)
    environment[part.names[i]] = inputs[i];
  runtime::InterpretOptions options;
  options.syms = syms;
  std::vector<at::Tensor> shown = runtime::interpret(*part.views, std::move(environment), options);
  for (size_t i = 0; i < shown.size(); ++i)
    if (part.outputs[i].value != 0)
      shown[i] = run.take(part.outputs[i].value, std::move(shown[i]));
  return shown;
}

} // namespace graphopt::driver
