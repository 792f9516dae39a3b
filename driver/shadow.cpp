// Frames are kept and used again: their placeholders are what makes a shadowed operator cheap.
#include "driver/shadow.h"

#include "capture/argument_names.h"
#include "capture/capture.h"
#include "capture/replay_rows.h"
#include "capture/segment_graph.h"
#include "driver/log.h"
#include "ir/print.h"

#include <graphopt/error.h>
#include <graphopt/scope.h>
#include <graphopt/stance.h>

namespace graphopt::driver {
namespace {

constexpr size_t kKeptTexts = 16;

using capture::SegmentPtr;
using Name = capture::SegmentRecorder::Name;

/// The parameters, buffers and arguments of a call by tensor. Looked up rarely, and filled only then.
class Names {
public:
  /// `isCurrent` is cleared at each call.
  Name of(const at::Tensor &tensor, const capture::Program &program, const ArgumentsGetter &arguments) {
    if (const Known *known = find(tensor))
      return known->name;
    if (!isCurrent)
      refresh(program, arguments);
    isCurrent = true;
    const Known *known = find(tensor);
    return known ? known->name : Name{};
  }
  bool isCurrent = false;

private:
  struct Known {
    Name name;
    capture::WeakTensor weak;
  };
  const Known *find(const at::Tensor &tensor) const {
    auto it = known_.find(tensor.unsafeGetTensorImpl());
    return it == known_.end() || it->second.weak.expired() ? nullptr : &it->second;
  }
  void add(const at::Tensor &tensor, Name name) {
    if (tensor.defined())
      known_.insert_or_assign(tensor.unsafeGetTensorImpl(),
                              Known{std::move(name), capture::WeakTensor(tensor.getIntrusivePtr())});
  }
  void refresh(const capture::Program &program, const ArgumentsGetter &arguments) {
    known_.clear();
    if (arguments) {
      std::vector<c10::IValue> values = arguments();
      std::vector<capture::Structure> structures;
      std::vector<at::Tensor> leaves;
      for (const c10::IValue &value : values)
        structures.push_back(capture::flatten(value, leaves));
      std::vector<std::string> names =
          capture::leafNames(structures, capture::argumentNames(values.size(), program.argumentNames()));
      for (size_t i = 0; i < leaves.size(); ++i)
        add(leaves[i], {names[i]});
    }
    for (const capture::NamedTensor &state : program.state())
      add(state.tensor, {state.name, state.isParameter, !state.isParameter});
  }
  std::unordered_map<const c10::TensorImpl *, Known> known_;
};

} // namespace

/// A frame and what it asks its callable.
class Shadow::Call final : public capture::FrameHost {
public:
  explicit Call(Shadow &shadow) : shadow_(shadow), frame_(shadow.graph_, *this) {}

  void operator()(capture::Program &program, const std::function<void()> &code,
                  const ArgumentsGetter &arguments) {
    program_ = &program;
    arguments_ = &arguments;
    names_.isCurrent = false;
    capture::SinkScope sink(frame_);
    frame_.begin();
    try {
      code();
    } catch (...) {
      frame_.abandon();
      throw;
    }
    frame_.finish();
  }
  capture::FrameCounters takeCounters() { return frame_.takeCounters(); }

private:
  void run(const capture::SegmentRun &run) override { capture::replayRows(run); }
  Name nameOf(const at::Tensor &tensor) override { return names_.of(tensor, *program_, *arguments_); }
  std::string currentModule() override {
    if (!Scope::current().empty())
      return Scope::current();
    return program_->scope().value_or("");
  }

  bool allowsRecording(const std::string &reason) override {
    if (currentStance() == Stance::failOnRecompile)
      userError(fmt::format("'{}' would have to be recorded, which the stance failOnRecompile forbids: {}",
                            shadow_.name_,
                            reason.empty() ? "nothing that begins so was recorded yet" : reason));
    return currentStance() != Stance::eagerOnRecompile;
  }
  void onBorder(const std::string &reason) override {
    if (shadow_.options_.fullgraph)
      userError(
          fmt::format("'{}': fullgraph was asked for, but the graph breaks: {}", shadow_.name_, reason));
    log(Channel::graph_breaks, fmt::format("{}: {}", shadow_.name_, reason));
    std::lock_guard lock(shadow_.mutex_);
    if (shadow_.borders_.size() < 256 || shadow_.borders_.contains(reason))
      ++shadow_.borders_[reason];
  }
  void onDivergence(const SegmentPtr &node, size_t row, const std::string &reason) override {
    std::string text = fmt::format("segment {}, operator {}: {}", node->segment.number, row, reason);
    log(Channel::shadow, fmt::format("{}: {}", shadow_.name_, text));
    shadow_.say(shadow_.divergences_, std::move(text));
  }
  void onRecorded(const std::vector<SegmentPtr> &pieces, const std::string &reason) override {
    for (const SegmentPtr &piece : pieces)
      log(Channel::recompiles,
          fmt::format("{}: recorded segment {} ({} operators){}", shadow_.name_, piece->segment.number,
                      piece->segment.size(), reason.empty() ? "" : ": " + reason));
    shadow_.sayNews();
  }
  void onUnknownShape(const std::string &operatorName) override {
    log(Channel::dynamic,
        fmt::format("{}: no shape rule for {}: each size is recorded", shadow_.name_, operatorName));
    shadow_.say(shadow_.unknownShapes_, operatorName);
  }
  void onOverLimit(const std::string &reason) override {
    log(Channel::recompiles, fmt::format("{}: the rest of a call runs eagerly: {}", shadow_.name_, reason));
    shadow_.say(shadow_.overLimits_, reason);
  }

  Shadow &shadow_;
  capture::Frame frame_;
  Names names_;
  capture::Program *program_ = nullptr;
  const ArgumentsGetter *arguments_ = nullptr;
};

Shadow::Shadow(const CompileOptions &options, std::string name)
    : options_(options), name_(std::move(name)), graph_(options.recompileLimit, options.dynamic) {}
Shadow::~Shadow() = default;

std::unique_ptr<Shadow::Call> Shadow::take() {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Call> call = std::move(idle_.back());
      idle_.pop_back();
      return call;
    }
  }
  return std::make_unique<Call>(*this);
}

void Shadow::giveBack(std::unique_ptr<Call> call) {
  capture::FrameCounters counts = call->takeCounters();
  std::lock_guard lock(mutex_);
  ++counters_.calls;
  counters_.shadowedCalls += counts.recordedOps + counts.divergences + counts.overLimit == 0;
  counters_.recordings += counts.recordings;
  counters_.derivations += counts.derivations;
  counters_.divergences += counts.divergences;
  counters_.borders += counts.borders;
  counters_.shadowedOperators += counts.shadowedOps;
  counters_.recordedOperators += counts.recordedOps;
  counters_.directOperators += counts.directOps;
  counters_.filled += counts.filled;
  counters_.overLimitCalls += counts.overLimit;
  idle_.push_back(std::move(call));
}

void Shadow::sayNews() {
  for (std::string &text : graph_.takeNews()) {
    log(Channel::dynamic, fmt::format("{}: {}", name_, text));
    say(dynamic_, std::move(text));
  }
}

/// Each text once, the last ones.
void Shadow::say(std::deque<std::string> &list, std::string text) {
  std::lock_guard lock(mutex_);
  std::erase(list, text);
  list.push_back(std::move(text));
  if (list.size() > kKeptTexts)
    list.pop_front();
}

void Shadow::call(capture::Program &program, const std::function<void()> &code,
                  const ArgumentsGetter &arguments) {
  if (capture::isRecording() || currentStance() == Stance::forceEager) {
    code();
    return;
  }
  std::unique_ptr<Call> call = take();
  try {
    (*call)(program, code, arguments);
  } catch (...) {
    giveBack(std::move(call));
    throw;
  }
  giveBack(std::move(call));
}

void Shadow::reset() { graph_.clear(); }

void Shadow::explain(Explanation &explanation) const {
  const std::vector<SegmentPtr> nodes = graph_.segments();
  for (const SegmentPtr &node : nodes) {
    SegmentInfo info;
    info.number = node->segment.number;
    info.operators = node->segment.size();
    info.visits = node->visits;
    info.border = node->segment.border;
    info.reason = node->reason;
    info.derivedFrom = node->derivedFrom;
    std::vector<const capture::Segment *> others; // a derived one shows its own sizes
    for (const SegmentPtr &other : nodes)
      if (other != node && other->family == node->family && !node->isDerived)
        others.push_back(&other->segment);
    info.graph =
        ir::print(capture::graphOf(node->segment, others, fmt::format("{}_{}", name_, node->segment.number)));
    for (const auto &[next, count] : graph_.successors(node.get()))
      info.next.push_back({next ? next->segment.number : -1, count});
    explanation.segments.push_back(std::move(info));
  }
  std::lock_guard lock(mutex_);
  explanation.shadow = counters_;
  explanation.divergences.assign(divergences_.begin(), divergences_.end());
  explanation.overLimits.assign(overLimits_.begin(), overLimits_.end());
  explanation.borders = borders_;
  explanation.dynamic.assign(dynamic_.begin(), dynamic_.end());
  explanation.unknownShapes.assign(unknownShapes_.begin(), unknownShapes_.end());
}

} // namespace graphopt::driver
