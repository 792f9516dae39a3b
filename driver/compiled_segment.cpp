// The forward plan runs below autograd, so its results have no past; those that require gradients get the
// node as theirs before the frame hands them out. The node's next edges are the live-ins that require
// gradients.
#include "driver/compiled_segment.h"

#include "capture/keys.h"
#include "capture/segment_graph.h"
#include "driver/segment_node.h"
#include "passes/manager.h"
#include "runtime/catalog.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>
#include <graphopt/error.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_map>

namespace graphopt::driver {
namespace {

using capture::Segment;
using capture::SegmentRun;
using capture::ValueId;

/// The compiler is written for whole segments as they were recorded; all else runs row by row.
constexpr const char *kPipeline = "functionalize,dce,lower{joint=on},cse,dce";

const Segment &segmentOf(const SegmentRun &run) { return run.node->segment; }

std::vector<ValueId> wantedIds(const SegmentRun &run) {
  std::vector<ValueId> ids;
  for (size_t id = 1; id < run.wanted.size(); ++id)
    if (run.wanted[id] && !segmentOf(run).values[id].isLiveIn)
      ids.push_back(static_cast<ValueId>(id));
  return ids;
}

const void *memoryOf(const at::Tensor &tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

std::vector<int64_t> fixed(const std::vector<ir::Dim> &dims) {
  std::vector<int64_t> values;
  for (const ir::Dim &dim : dims)
    values.push_back(dim.value());
  return values;
}

/// The same numbers with the strides that the plan was made for.
at::Tensor withStrides(const at::Tensor &tensor, const std::vector<int64_t> &strides) {
  if (tensor.strides() == strides)
    return tensor;
  return at::empty_strided(tensor.sizes(), strides, tensor.options()).copy_(tensor);
}

} // namespace

bool wantsGradients(const SegmentRun &run) {
  const Segment &segment = segmentOf(run);
  return std::ranges::any_of(wantedIds(run),
                             [&](ValueId id) { return segment.values[id].metadata.requiresGrad; });
}

std::string reasonNotToCompile(const SegmentRun &run) {
  const Segment &segment = segmentOf(run);
  if (run.rows != segment.size())
    return "a part of it ran";
  if (!run.scalars.empty())
    return "numbers differ from the recorded ones";
  std::unordered_map<ValueId, ValueId> families;
  for (ValueId id : wantedIds(run)) {
    const ValueId family = segment.values[id].family;
    if (segment.values[family].isLiveIn)
      return "a view of memory from outside leaves it";
    if (!families.emplace(family, id).second)
      return "two tensors that share memory leave it";
  }
  return "";
}

CompiledSegment::CompiledSegment(const SegmentRun &run, Lowering &lowering) {
  const Segment &segment = segmentOf(run);
  const std::vector<ValueId> wanted = wantedIds(run);
  ir::Graph graph = capture::graphOf(segment, {}, fmt::format("segment{}", segment.number), &wanted);
  graph.guards.clear();
  passes::ManagerOptions options;
  options.catalog = &runtime::dispatcherCatalog();
  options.pieces = &lowering.pieces();
  options.verifyEach = false;
  passes::runPipeline(graph, passes::parsePipeline(kPipeline), options);
  parts_ = passes::partition(graph, options.catalog);
  forward_ = std::make_shared<const runtime::Executor>(runtime::buildPlan(parts_.forward));
  backward_ = std::make_shared<const runtime::Executor>(runtime::buildPlan(parts_.backward));

  liveIns_ = segment.liveIns;
  std::unordered_map<std::string, size_t> byName, residuals, cotangents;
  for (const ir::Value *value : graph.declarations()) {
    const size_t position = names_.size();
    if (position >= liveIns_.size())
      break; // constants and cotangents follow
    byName[value->name] = position;
    names_.push_back(value->name);
    if (value->type.grad)
      withGradient_.push_back(position);
  }
  for (size_t i = 0; i < wanted.size(); ++i)
    outputs_.push_back({wanted[i], parts_.outputs.at(i)});
  for (const runtime::PlanInput &input : forward_->plan().inputs)
    forwardInputs_.push_back(byName.at(input.name));
  for (const passes::Residual &residual : parts_.residuals)
    if (!residual.isDeclared)
      residuals.emplace(residual.name, residuals.size());
  for (const ir::Value *value : parts_.backward.declared(ir::Value::Kind::Cotangent))
    cotangents.emplace(value->name, cotangents.size());
  for (const runtime::PlanInput &input : backward_->plan().inputs) {
    if (auto residual = residuals.find(input.name); residual != residuals.end())
      backwardInputs_.push_back({BackwardInput::Kind::Residual, residual->second, {}});
    else if (auto liveIn = byName.find(input.name); liveIn != byName.end())
      backwardInputs_.push_back({BackwardInput::Kind::LiveIn, liveIn->second, {}});
    else
      backwardInputs_.push_back({BackwardInput::Kind::Cotangent, cotangents.at(input.name),
                                 fixed(parts_.backward.find(input.name)->type.stridesOrContiguous())});
  }
}

std::vector<at::Tensor> CompiledSegment::inputsOf(const SegmentRun &run) const {
  std::vector<at::Tensor> inputs;
  for (size_t position : forwardInputs_)
    inputs.push_back(run.tensors[liveIns_[position]]);
  return inputs;
}

void CompiledSegment::run(const SegmentRun &run) const {
  c10::impl::ExcludeDispatchKeyGuard notRecorded(capture::kCaptureHigh);
  std::vector<at::Tensor> made = forward_->run(inputsOf(run));
  // The node outlives this object's owner: what it needs is shared.
  const auto node = std::make_shared<SegmentNodeBackward>(
      fmt::format("segment {}", segmentOf(run).number),
      [executor = backward_, inputs = backwardInputs_](const SegmentNodeBackward::Saved &saved,
                                                       std::vector<at::Tensor> cotangents) {
        std::vector<at::Tensor> given;
        for (const BackwardInput &input : inputs)
          given.push_back(input.kind == BackwardInput::Kind::Residual ? saved.residuals.at(input.index)
                          : input.kind == BackwardInput::Kind::LiveIn
                              ? saved.liveIns.at(input.index)
                              : withStrides(cotangents.at(input.index), input.strides));
        return executor->run(given);
      });
  torch::autograd::edge_list edges;
  for (size_t position : withGradient_)
    edges.push_back(torch::autograd::impl::gradient_edge(run.tensors[liveIns_[position]]));
  node->set_next_edges(std::move(edges));
  std::unordered_map<const c10::TensorImpl *, at::Tensor> visible;
  std::unordered_map<const void *, at::Tensor> visibleMemory;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const c10::TensorImpl *plain = made[i].unsafeGetTensorImpl();
    if (outputs_[i].isDifferentiable)
      torch::autograd::set_history(made[i], node);
    at::Tensor taken = run.take(outputs_[i].value, made[i]);
    visible.emplace(plain, taken);
    visibleMemory.emplace(memoryOf(taken), taken);
  }
  std::vector<bool> needsLiveIn(liveIns_.size(), false);
  for (const BackwardInput &input : backwardInputs_)
    if (input.kind == BackwardInput::Kind::LiveIn)
      needsLiveIn[input.index] = true;
  for (size_t i = 0; i < liveIns_.size(); ++i) {
    const at::Tensor &tensor = run.tensors[liveIns_[i]];
    visibleMemory.emplace(memoryOf(tensor), tensor);
    if (needsLiveIn[i])
      node->saveLiveIn(i, tensor);
  }
  for (size_t i = outputs_.size(); i < made.size(); ++i) {
    auto same = visible.find(made[i].unsafeGetTensorImpl());
    if (same != visible.end()) {
      node->saveOutput(same->second);
      continue;
    }
    node->saveResidual(made[i]);
    if (auto memory = visibleMemory.find(memoryOf(made[i])); memory != visibleMemory.end())
      node->watch(i - outputs_.size(), memory->second);
  }
}

} // namespace graphopt::driver
