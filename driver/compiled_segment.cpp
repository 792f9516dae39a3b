// Most segments are one part; see passes/graph_parts.h for when they are more.
#include "driver/compiled_segment.h"

#include "capture/kept_casts.h"
#include "capture/keys.h"
#include "capture/segment_graph.h"
#include "capture/thread_probe.h"
#include "driver/segment_shape.h"
#include "runtime/catalog.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>
#include <graphopt/error.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

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
  std::vector<bool> requiresGrad;
  for (ValueId id : wanted)
    requiresGrad.push_back(segment.values[id].metadata.requiresGrad);
  std::vector<passes::GraphPart> parts =
      passes::partsOf(functional, requiresGrad, *options.pieces, options.catalog);
  for (passes::GraphPart &part : parts)
    addPart(part, segment, wanted, versions, planning, options);
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

size_t CompiledSegment::slotOf(const std::string &name) {
  return slots_.emplace(name, slots_.size()).first->second;
}

/// What an earlier part gives is known by now to have gradients or none.
void CompiledSegment::addPart(passes::GraphPart &part, const Segment &segment,
                              const std::vector<ValueId> &wanted, const ResultVersions &versions,
                              const BackwardPlanning &planning, const passes::ManagerOptions &options) {
  constexpr uint32_t kCrossing = 1U << 31; // numbers of values that only parts see, apart from all ids
  const auto sourceOf = [&](const std::string &input) {
    const auto use = part.uses.find(input);
    return use == part.uses.end() ? input : use->second;
  };
  for (const Part &earlier : parts_)
    for (size_t i = 0; i < earlier.outputs.size(); ++i)
      for (ir::Value *input : part.graph.declarations())
        if (const auto slot = slots_.find(sourceOf(input->name));
            slot != slots_.end() && slot->second == earlier.outputs[i].slot)
          input->type.grad = input->type.grad && earlier.compiled.isDifferentiable(i);
  std::vector<Output> outputs;
  std::vector<uint32_t> numbers;
  for (const passes::GraphPart::Output &output : part.outputs) {
    const ValueId id = output.position ? wanted.at(*output.position) : 0;
    const size_t slot = slotOf(output.name);
    outputs.push_back({id, versions.contains(id) ? versions.at(id) : 0, slot});
    numbers.push_back(id != 0 ? id : kCrossing | static_cast<uint32_t>(slot));
  }
  std::vector<Written> written = writtenBy(part.graph, segment);
  CompiledPart compiled(part.graph, fmt::format("segment {}", segment.number), numbers, segment.device,
                        planning, options);
  std::vector<size_t> inputs;
  for (const std::string &input : compiled.inputs())
    inputs.push_back(slots_.at(sourceOf(input)));
  parts_.push_back({std::move(compiled), std::move(inputs), std::move(outputs), std::move(written)});
}

std::vector<CompiledSegment::Written> CompiledSegment::writtenBy(const ir::Graph &functional,
                                                                 const Segment &segment) const {
  std::vector<Written> written;
  for (size_t i = 0; i < liveIns_.size(); ++i)
    for (const ir::Value *value : functional.declarations())
      if (const auto slot = slots_.find(value->name); slot != slots_.end() && slot->second == i)
        if (uint32_t times = timesWritten(segment, liveIns_[i]); times > 0 || isWrittenBack(*value))
          written.push_back({i, times});
  return written;
}

std::map<std::string, uint64_t> CompiledSegment::opaque() const {
  std::map<std::string, uint64_t> all;
  for (const Part &part : parts_)
    for (const auto &[what, count] : part.compiled.opaque())
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
  for (const Part &part : parts_)
    runPart(part, run, syms, slots);
}

/// A write-back is one copy, whatever the operators were that wrote: versions are put where those leave them.
void CompiledSegment::runPart(const Part &part, const SegmentRun &run, const std::vector<ir::SymValue> &syms,
                              std::vector<at::Tensor> &slots) const {
  std::vector<int64_t> versions;
  for (const Written &written : part.written)
    versions.push_back(slots[written.liveIn]._version());
  CompiledPart::Run step{{}, syms};
  for (size_t slot : part.inputs)
    step.inputs.push_back(slots[slot]);
  part.compiled.run(step);
  for (size_t i = 0; i < versions.size(); ++i)
    setVersion(slots[part.written[i].liveIn], versions[i] + part.written[i].times);
  std::vector<at::Tensor> shown;
  for (size_t i = 0; i < part.outputs.size(); ++i) {
    const Output &output = part.outputs[i];
    if (output.value != 0)
      setVersion(step.made[i], output.version);
    shown.push_back(output.value != 0 ? run.take(output.value, step.made[i]) : step.made[i]);
    slots[output.slot] = shown.back();
  }
  part.compiled.save(step, shown);
}

} // namespace graphopt::driver
