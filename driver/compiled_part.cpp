// The forward plan runs below autograd, so its results have no past; those that require gradients get the
// node as theirs before anybody sees them. The node's next edges are the inputs that require gradients.
#include "driver/compiled_part.h"

#include "driver/run_again.h"
#include "ir/compare.h"
#include "ir/dim_list.h"
#include "ir/dtype.h"
#include "ir/effects.h"
#include "runtime/catalog.h"
#include "runtime/vjp.h"

#include <fmt/format.h>
#include <graphopt/error.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <ranges>
#include <unordered_map>

namespace graphopt::driver {
namespace {

using capture::ThreadProbe;
using capture::ThreadWord;

const void *memoryOf(const at::Tensor &tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

std::vector<int64_t> valuesOf(const std::vector<ir::Dim> &dims, const std::vector<ir::SymValue> &syms) {
  std::vector<int64_t> values;
  for (const ir::Dim &dim : dims)
    values.push_back(ir::evaluate(dim, syms).value());
  return values;
}

/// Some gradients are autograd's own, which are asked for without autocast.
bool asksAutograd(const ir::Graph &graph) {
  return std::ranges::any_of(graph.body(), [](const auto &op) { return op->kind == ir::Op::Kind::Vjp; });
}

/// The operator whose gradients a vjp asks for: behind states of generators.
std::string operatorOf(const ir::Op &vjp) {
  for (const auto &inner : *vjp.body())
    if (!inner->isCall(ir::kSetRngState))
      return inner->name;
  return "";
}

/// Where sizes vary and a segment cannot run again, operators would be made for a guess of how autograd's own
/// gradients lie.
void checkLayouts(const ir::Graph &joint) {
  for (const auto &op : joint.body())
    if (op->kind == ir::Op::Kind::Vjp && !joint.syms.empty())
      for (const ir::Value *gradient : op->results())
        if (std::ranges::any_of(gradient->users(), [](const ir::Op *user) { return user->computes(); }))
          userError(
              fmt::format("'{}' was not taken apart for many sizes, and others take its gradient, which "
                          "may lie in memory in any way",
                          operatorOf(*op)));
}

bool drawsRandomNumbers(const ir::Graph &graph) {
  bool draws = false;
  ir::walk(graph.body(), [&](const ir::Op &op) { draws |= ir::mayDraw(op, &runtime::dispatcherCatalog()); });
  return draws;
}

bool writesBack(const ir::Graph &graph) {
  return std::ranges::any_of(graph.body(),
                             [](const auto &op) { return op->kind == ir::Op::Kind::Writeback; });
}

CotangentForm formOfGradient(const at::Tensor &gradient) {
  return formOf(gradient, gradient.defined() ? c10::contiguous_strides(gradient.sizes()) : c10::DimVector());
}

bool isAsExpected(const at::Tensor &gradient, const std::optional<std::vector<int64_t>> &strides) {
  if (!strides || !gradient.defined())
    return gradient.defined() == strides.has_value();
  return gradient.layout() == c10::kStrided && formOf(gradient, *strides) == CotangentForm{};
}

/// As passes/reverse_sweep.h has it.
ir::Attr attrOf(const CotangentForm &form) {
  if (form.kind == CotangentForm::Kind::Undefined)
    return ir::Attr::word("undefined");
  if (form.kind == CotangentForm::Kind::Gaps)
    return ir::Attr::list({ir::Attr::ints(form.strides)});
  return ir::Attr::ints({form.order.begin(), form.order.end()});
}

} // namespace

CompiledPart::CompiledPart(const ir::Graph &captured, std::string name, const std::vector<uint32_t> &outputs,
                           c10::Device device, const BackwardPlanning &planning,
                           const passes::ManagerOptions &options)
    : name_(std::move(name)), key_(planning.key), last_(planning.last), autocasts_{planning.key.autocast},
      number_(outputs.empty() ? 0 : outputs.front()) {
  for (uint32_t number : outputs)
    outputs_.push_back({number, false, key_.of(number), {}});
  if (drawsRandomNumbers(captured)) {
    drawsOn_ = {c10::kCPU};
    if (device != c10::Device(c10::kCPU))
      drawsOn_.push_back(device);
  }
  ir::Graph functional = captured.clone();
  if (planning.choices.layout == Layout::channelsLast)
    passes::runPipeline(functional, passes::parsePipeline("layout"), options);
  if (planning.mayRunAgain && !writesBack(captured)) { // without writes to memory from outside
    surface_ = std::make_shared<const ir::Graph>(captured.clone());
    for (const auto &[which, form] : key_.gradients)
      if (which.part == number_)
        gradients_.emplace(which, form);
  } else {
    expectAnyCotangents(functional);
  }
  std::vector<passes::PassReport> reports;
  const ir::Graph joint = lowered(functional, key_.autocast, options, &reports);
  noteOpaque(reports);
  mayMiss_ = surface_ && asksAutograd(joint);
  if (!surface_)
    checkLayouts(joint);
  if (!surface_ && !asksAutograd(joint))
    for (const ThreadWord other : planning.otherAutocasts)
      if (ir::difference(joint, lowered(functional, other, options)).empty())
        autocasts_.push_back(other);
  partitioned_ =
      passes::partition(joint, &runtime::dispatcherCatalog(), {.recompute = planning.choices.recompute});
  forward_ = std::make_shared<const runtime::Executor>(runtime::buildPlan(partitioned_.forward));
  backward_ = std::make_shared<const runtime::Executor>(runtime::buildPlan(partitioned_.backward));
  noteOutputs(functional);
  noteTypes(functional, joint);
  noteInputs(joint);
  isReached_ = reachedInputs(joint);
  if (isSomeUndefined()) { // with another backward more may be reached
    const auto now = std::pair(outputs_, gradients_);
    expectAnyCotangents(functional);
    gradients_.clear();
    isReached_ = reachedInputs(lowered(functional, key_.autocast, options));
    std::tie(outputs_, gradients_) = now;
  }
  mapBackwardInputs();
}

/// A plan that has to serve any backward must not count on a gradient staying away, nor on one whose elements
/// share memory: no other can be laid out as that.
void CompiledPart::expectAnyCotangents(const ir::Graph &functional) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    CotangentForm &form = outputs_[i].form;
    const ir::Operand &returned = functional.returnOp()->operands().at(i);
    if (form.kind == CotangentForm::Kind::Undefined || form.order.size() != returned.value->type.rank())
      form = {};
  }
}

/// lower counts them as "opaque: NAME: WHY", and "opaque backward: NAME: WHY".
void CompiledPart::noteOpaque(const std::vector<passes::PassReport> &reports) {
  constexpr std::string_view kWhole = "opaque: ", kBackward = "opaque backward: ";
  for (const passes::PassReport &report : reports)
    for (const auto &[what, count] : report.statistics)
      if (what.starts_with(kWhole))
        opaque_[what.substr(kWhole.size())] += static_cast<uint64_t>(count);
      else if (what.starts_with(kBackward))
        opaque_["the backward of " + what.substr(kBackward.size())] += static_cast<uint64_t>(count);
}

/// For the header of the graph to be lowered (passes/reverse_sweep.h).
ir::Attr CompiledPart::cotangentForms(const ir::Graph &functional) const {
  const std::vector<ir::Operand> &returned = functional.returnOp()->operands();
  std::vector<ir::Attr> forms;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const CotangentForm &form = outputs_[i].form;
    const bool isUndefined = form.kind == CotangentForm::Kind::Undefined;
    if (isUndefined || form.kind == CotangentForm::Kind::AsResult) {
      forms.push_back(ir::Attr::word(isUndefined ? "undefined" : "as_result"));
      continue;
    }
    forms.push_back(ir::dimList(stridesOf(form, returned.at(i).value->type)));
  }
  return ir::Attr::list(std::move(forms));
}

ir::Attr CompiledPart::gradientForms() const {
  std::vector<ir::Attr> forms;
  for (const auto &[which, form] : gradients_)
    forms.push_back(ir::Attr::list({ir::Attr::integer(which.number),
                                    ir::Attr::integer(static_cast<int64_t>(which.result)), attrOf(form)}));
  return ir::Attr::list(std::move(forms));
}

/// Forward and backward in one graph, for backwards under that autocast.
ir::Graph CompiledPart::lowered(const ir::Graph &functional, ThreadWord autocast,
                                const passes::ManagerOptions &options,
                                std::vector<passes::PassReport> *reports) const {
  ir::Graph graph = functional.clone();
  graph.settings.push_back({"cotangents", cotangentForms(functional)});
  graph.settings.push_back({"vjp_gradients", gradientForms()});
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

void CompiledPart::noteOutputs(const ir::Graph &functional) {
  const std::vector<ir::Operand> &returned = functional.returnOp()->operands();
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].isDifferentiable = partitioned_.outputs.at(i);
    outputs_[i].strides = returned.at(i).value->type.stridesOrContiguous();
  }
  if (!surface_ && std::ranges::count_if(outputs_, &Output::isDifferentiable) > 1)
    userError("several results with gradients leave it, and the segment writes memory from outside: with a "
              "cotangent for some of them it would have to run again");
}

/// Expressions for many sizes are found at a few (passes/sized_pieces), and are held against the captured
/// ones at each. Values keep their names.
void CompiledPart::noteTypes(const ir::Graph &functional, const ir::Graph &joint) {
  const auto note = [&](const std::vector<ir::Dim> &captured, const std::vector<ir::Dim> &lowered) {
    for (size_t i = 0; i < std::min(captured.size(), lowered.size()); ++i)
      if (captured[i] != lowered[i] &&
          std::ranges::find(sameDims_, std::pair(captured[i], lowered[i])) == sameDims_.end())
        sameDims_.emplace_back(captured[i], lowered[i]);
  };
  for (const auto &op : functional.body())
    for (const ir::Value *value : op->results())
      if (const ir::Value *same = joint.find(value->name);
          same && same->type.isTensor() && !joint.syms.empty()) {
        note(value->type.sizes, same->type.sizes);
        note(value->type.stridesOrContiguous(), same->type.stridesOrContiguous());
      }
}

bool CompiledPart::holdsFor(const std::vector<ir::SymValue> &syms) const {
  return std::ranges::all_of(sameDims_, [&](const std::pair<ir::Dim, ir::Dim> &dims) {
    return ir::evaluate(dims.first, syms) == ir::evaluate(dims.second, syms);
  });
}

void CompiledPart::noteInputs(const ir::Graph &joint) {
  for (const ir::Value *value : joint.declarations()) {
    using Kind = ir::Value::Kind;
    if (value->kind == Kind::Const || value->kind == Kind::HostVal || value->kind == Kind::Cotangent)
      continue;
    if (value->type.grad)
      withGradient_.push_back(names_.size());
    names_.push_back(value->name);
  }
}

bool CompiledPart::isSomeUndefined() const {
  const auto isUndefined = [](const CotangentForm &form) {
    return form.kind == CotangentForm::Kind::Undefined;
  };
  return std::ranges::any_of(outputs_, isUndefined, &Output::form) ||
         std::ranges::any_of(gradients_ | std::views::values, isUndefined);
}

/// Gradients follow the outputs in what the joint graph returns.
std::vector<bool> CompiledPart::reachedInputs(const ir::Graph &joint) const {
  const std::vector<ir::Operand> &returned = joint.returnOp()->operands();
  std::vector<bool> isReached;
  for (size_t i = outputs_.size(); i < returned.size(); ++i)
    isReached.push_back(returned[i].isValue());
  return isReached;
}

/// Where the plans' inputs come from, by the names that graphs and plans share.
void CompiledPart::mapBackwardInputs() {
  std::unordered_map<std::string, size_t> inputs, residuals, cotangents;
  for (size_t i = 0; i < names_.size(); ++i)
    inputs.emplace(names_[i], i);
  for (const runtime::PlanInput &input : forward_->plan().inputs)
    forwardInputs_.push_back(inputs.at(input.name));
  for (const passes::Residual &residual : partitioned_.residuals)
    if (!residual.isDeclared)
      residuals.emplace(residual.name, residuals.size());
  std::vector<size_t> defined; // among differentiable outputs
  for (size_t i = 0, differentiable = 0; i < outputs_.size(); ++i)
    if (outputs_[i].isDifferentiable) {
      if (outputs_[i].form.kind != CotangentForm::Kind::Undefined)
        defined.push_back(differentiable);
      ++differentiable;
    }
  for (const ir::Value *value : partitioned_.backward.declared(ir::Value::Kind::Cotangent))
    cotangents.emplace(value->name, defined.at(cotangents.size()));
  for (const runtime::PlanInput &input : backward_->plan().inputs) {
    if (auto residual = residuals.find(input.name); residual != residuals.end()) {
      backwardInputs_.push_back({BackwardInput::Kind::Residual, residual->second});
    } else if (auto given = inputs.find(input.name); given != inputs.end()) {
      backwardInputs_.push_back({BackwardInput::Kind::Input, given->second});
      savedInputs_.push_back(given->second);
    } else {
      backwardInputs_.push_back({BackwardInput::Kind::Cotangent, cotangents.at(input.name),
                                 partitioned_.backward.find(input.name)->type.stridesOrContiguous()});
    }
  }
}

// ---- a run

/// The node outlives the callable: what it needs is shared or copied. Without an edge where no gradient goes:
/// the engine calls the nodes at the ends of all edges, also of graphs that are long gone.
std::shared_ptr<SegmentNodeBackward> CompiledPart::makeNode(const Run &run) const {
  SegmentNodeBackward::Ways ways;
  ways.inputs = savedInputs_;
  ways.keepsValues = std::ranges::any_of(backwardInputs_, [](const BackwardInput &input) {
    return input.kind != BackwardInput::Kind::Cotangent;
  });
  ways.plan = planFor(run.syms);
  ways.mayMiss = mayMiss_;
  ways.fits = fitsFor(run.syms);
  if (surface_)
    ways.again = againFor(run.syms);
  // As LibTorch makes its own: deep graphs of them are taken down without recursion.
  std::shared_ptr<SegmentNodeBackward> node(new SegmentNodeBackward(name_, std::move(ways)),
                                            torch::autograd::deleteNode);
  torch::autograd::edge_list edges;
  for (size_t i = 0; i < withGradient_.size(); ++i)
    edges.push_back(isReached_[i] ? torch::autograd::impl::gradient_edge(run.inputs[withGradient_[i]])
                                  : torch::autograd::Edge());
  node->set_next_edges(std::move(edges));
  return node;
}

/// Notes how the gradients come that autograd gives inside; nothing when one came otherwise than counted on.
/// Layouts with gaps are planned for at fixed sizes: they are strides.
SegmentNodeBackward::Backward CompiledPart::planFor(const std::vector<ir::SymValue> &syms) const {
  return [executor = backward_, inputs = backwardInputs_, syms, mayMiss = mayMiss_, last = last_,
          part = number_](const SegmentNodeBackward::Saved &saved, std::vector<at::Tensor> cotangents) {
    std::vector<at::Tensor> given;
    for (const BackwardInput &input : inputs)
      given.push_back(input.kind == BackwardInput::Kind::Residual ? saved.residuals.at(input.index)
                      : input.kind == BackwardInput::Kind::Input
                          ? saved.inputs.at(input.index)
                          : runtime::laidOut(cotangents.at(input.index), valuesOf(input.strides, syms)));
    if (!mayMiss)
      return executor->run(given, syms);
    bool isMissed = false;
    const auto watch = [&](int64_t number, size_t result, const at::Tensor &gradient,
                           const std::optional<std::vector<int64_t>> &expected) {
      if (isAsExpected(gradient, expected))
        return !isMissed;
      isMissed = true; // from here on only to see how the others come
      CotangentForm form = formOfGradient(gradient);
      if (syms.empty() || form.kind != CotangentForm::Kind::Gaps)
        last->noteGradient({part, number, result}, std::move(form));
      return false;
    };
    try {
      std::vector<at::Tensor> gradients = executor->run(given, syms, watch);
      return isMissed ? std::vector<at::Tensor>() : gradients;
    } catch (const std::exception &) { // a view that does not fit, say: what runs again has its own errors
      if (!isMissed)
        throw;
      return std::vector<at::Tensor>();
    }
  };
}

SegmentNodeBackward::Backward CompiledPart::againFor(const std::vector<ir::SymValue> &syms) const {
  std::shared_ptr<const capture::GeneratorStates> draws;
  if (!drawsOn_.empty())
    draws = std::make_shared<const capture::GeneratorStates>(drawsOn_);
  SurfaceGraph surface{surface_, names_, withGradient_, {}, drawsOn_};
  for (const Output &output : outputs_)
    surface.isDifferentiable.push_back(output.isDifferentiable);
  return [draws, surface = std::move(surface), last = last_, syms](const SegmentNodeBackward::Saved &saved,
                                                                   std::vector<at::Tensor> cotangents) {
    last->countAgain();
    return gradientsAgain(surface, draws.get(), syms, saved.inputs, cotangents);
  };
}

/// Layouts may differ where there is no other way: the plan lays the gradient out anew.
std::function<bool(const std::vector<at::Tensor> &)>
CompiledPart::fitsFor(const std::vector<ir::SymValue> &syms) const {
  std::vector<Output> outputs;
  std::ranges::copy_if(outputs_, std::back_inserter(outputs), &Output::isDifferentiable);
  return [outputs = std::move(outputs), autocasts = autocasts_, last = last_, syms,
          mustFit = !surface_](const std::vector<at::Tensor> &cotangents) {
    const ThreadWord autocast = ThreadProbe::autocastOf(ThreadProbe().now());
    last->noteAutocast(autocast);
    bool fits = std::ranges::find(autocasts, autocast) != autocasts.end();
    for (size_t i = 0; i < outputs.size(); ++i) {
      CotangentForm form = formOf(cotangents.at(i), valuesOf(outputs[i].strides, syms));
      fits = fits && (mustFit || form == outputs[i].form);
      last->note(outputs[i].number, std::move(form));
    }
    return fits;
  };
}

void CompiledPart::run(Run &run) const {
  run.node = makeNode(run); // first: it notes the generators' states
  std::vector<at::Tensor> given;
  for (size_t position : forwardInputs_)
    given.push_back(run.inputs[position]);
  run.made = forward_->run(given, run.syms);
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (outputs_[i].isDifferentiable)
      torch::autograd::set_history(run.made[i], run.node);
}

/// A residual that is itself a result is saved as such; one that shares memory with something the program
/// sees is watched.
void CompiledPart::save(const Run &run, const std::vector<at::Tensor> &shown) const {
  for (const at::Tensor &input : run.inputs)
    run.node->saveInput(input);
  std::unordered_map<const c10::TensorImpl *, size_t> results;
  std::unordered_map<const void *, at::Tensor> visible;
  for (size_t i = 0; i < shown.size(); ++i) {
    results.emplace(run.made[i].unsafeGetTensorImpl(), i);
    visible.emplace(memoryOf(shown[i]), shown[i]);
  }
  for (const at::Tensor &input : run.inputs)
    visible.emplace(memoryOf(input), input);
  for (size_t i = outputs_.size(); i < run.made.size(); ++i) {
    if (auto result = results.find(run.made[i].unsafeGetTensorImpl()); result != results.end()) {
      run.node->saveOutput(shown[result->second]);
      continue;
    }
    run.node->saveResidual(run.made[i]);
    if (auto memory = visible.find(memoryOf(run.made[i])); memory != visible.end() && memory->first)
      run.node->watch(i - outputs_.size(), memory->second);
  }
}

} // namespace graphopt::driver
