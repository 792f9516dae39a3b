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

#include <chrono>

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

/// Measures now and then what a call costs beside the runs of its segments.
class HostClock {
public:
  void start() {
    isOn_ = ++calls_ % kEvery == 0;
    took_.reset();
    spent_ = Clock::duration::zero();
    if (isOn_)
      begin_ = Clock::now();
  }
  void stop() {
    if (isOn_)
      took_ = spent_ + (Clock::now() - begin_);
  }
  std::optional<uint64_t> take() {
    if (!took_)
      return std::nullopt;
    return std::chrono::nanoseconds(*std::exchange(took_, std::nullopt)).count();
  }
  class Pause {
  public:
    explicit Pause(HostClock &clock) : clock_(clock) {
      if (clock_.isOn_)
        clock_.spent_ += Clock::now() - clock_.begin_;
    }
    ~Pause() {
      if (clock_.isOn_)
        clock_.begin_ = Clock::now();
    }
    Pause(const Pause &) = delete;
    Pause &operator=(const Pause &) = delete;

  private:
    HostClock &clock_;
  };

private:
  using Clock = std::chrono::steady_clock;
  static constexpr uint64_t kEvery = 16;
  uint64_t calls_ = 0;
  bool isOn_ = false;
  Clock::time_point begin_;
  Clock::duration spent_{};
  std::optional<Clock::duration> took_;
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
    clock_.start();
    try {
      code();
    } catch (...) {
      frame_.abandon();
      throw;
    }
    frame_.finish();
    clock_.stop();
  }
  capture::FrameCounters takeCounters() { return frame_.takeCounters(); }
  /// Of the last call; nothing when it was not measured.
  std::optional<uint64_t> hostNanoseconds() { return clock_.take(); }

private:
  void run(const capture::SegmentRun &run) override {
    const HostClock::Pause pause(clock_);
    if (!shadow_.isToVerify(run)) {
      if (!shadow_.options_.compileBackward || !shadow_.compiled_.run(run))
        capture::replayRows(run);
      return;
    }
    const size_t before = run.node->verification->rows.exchange(run.rows);
    VerifyVerdict verdict;
    try {
      verdict = verifyRun(run, runRowsBeside, shadow_.options_.verifyLimit);
    } catch (...) { // of the program's operators: the next run is the first that can be compared
      run.node->verification->rows = before;
      throw;
    }
    shadow_.noteVerdict(run, verdict);
  }
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
    for (const SegmentPtr &piece : pieces) {
      log(Channel::recompiles,
          fmt::format("{}: recorded segment {} ({} operators){}", shadow_.name_, piece->segment.number,
                      piece->segment.size(), reason.empty() ? "" : ": " + reason));
      shadow_.logGraph(piece->segment);
    }
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
  HostClock clock_;
  capture::Program *program_ = nullptr;
  const ArgumentsGetter *arguments_ = nullptr;
};

Shadow::Shadow(const CompileOptions &options, std::string name)
    : options_(options), name_(std::move(name)), graph_(options.recompileLimit, options.dynamic),
      compiled_({options.recompute, options.layout}) {}
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
  std::optional<uint64_t> took = call->hostNanoseconds();
  std::lock_guard lock(mutex_);
  ++counters_.calls;
  const bool isShadowed = counts.recordedOps + counts.divergences + counts.overLimit == 0;
  counters_.shadowedCalls += isShadowed;
  if (took && isShadowed) {
    counters_.sampledOperators += counts.shadowedOps;
    counters_.sampledNanoseconds += *took;
  }
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

bool Shadow::isToVerify(const capture::SegmentRun &run) const {
  return run.rows > run.node->verification->rows.load(std::memory_order_relaxed) && options_.verifyRun;
}

void Shadow::noteVerdict(const capture::SegmentRun &run, const VerifyVerdict &verdict) {
  using Kind = VerifyVerdict::Kind;
  const std::string text = fmt::format("segment {}: {}", run.node->segment.number, verdict.text);
  {
    std::lock_guard lock(mutex_);
    counters_.verifyRuns += verdict.kind != Kind::Skipped;
    counters_.verifySkips += verdict.kind == Kind::Skipped;
    counters_.verifyUndecided += verdict.kind == Kind::Undecided;
    counters_.verifyDifferences += verdict.kind == Kind::Different;
  }
  if (verdict.kind == Kind::Same)
    return;
  if (verdict.kind != Kind::Different) {
    const std::string what = (verdict.kind == Kind::Skipped ? "not verified: " : "undecided: ") + text;
    log(Channel::shadow, fmt::format("{}: {}", name_, what));
    say(verifyFindings_, what);
    return;
  }
  graph_.refute(run.node, verdict.liar, "a verify run found: " + verdict.text);
  say(verifyFindings_, text);
  const std::string advice =
      verdict.liar ? "; from now on the operator runs as it is, and ends a segment: declare what it does, or "
                     "define it without at::Tag::pt2_compliant_tag"
                   : "; from now on the segment's operators run as they are";
  if (options_.strict)
    userError(fmt::format("'{}': a verify run found a difference in {}{}", name_, text, advice));
  fmt::print(stderr, "graphopt: warning: '{}': a verify run found a difference in {}{}\n", name_, text,
             advice);
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

void Shadow::reset() {
  graph_.clear();
  compiled_.clear();
}

void Shadow::logGraph(const capture::Segment &segment) const {
  if (!logs(Channel::graph) && !logs(Channel::guards))
    return;
  const ir::Graph graph = capture::graphOf(segment, {}, fmt::format("{}_{}", name_, segment.number));
  log(Channel::graph, "captured:\n" + ir::print(graph));
  std::string guards;
  for (const ir::Guard &guard : graph.guards)
    guards += fmt::format("{}, segment {}: {}\n", name_, segment.number, ir::print(guard));
  log(Channel::guards, guards);
}

void Shadow::explainSegments(Explanation &explanation) const {
  const std::vector<SegmentPtr> nodes = graph_.segments();
  for (const SegmentPtr &node : nodes) {
    SegmentInfo info;
    info.number = node->segment.number;
    info.operators = node->segment.size();
    info.visits = node->visits;
    info.border = node->segment.border;
    info.reason = node->reason;
    info.eagerReason = graph_.refutationOf(*node);
    info.derivedFrom = node->derivedFrom;
    std::vector<const capture::Segment *> others; // a derived one shows its own sizes
    for (const SegmentPtr &other : nodes)
      if (other != node && other->family == node->family && !node->isDerived)
        others.push_back(&other->segment);
    const ir::Graph graph =
        capture::graphOf(node->segment, others, fmt::format("{}_{}", name_, node->segment.number));
    info.graph = ir::print(graph);
    for (const ir::Guard &guard : graph.guards)
      info.guards.push_back(ir::print(guard));
    for (const auto &[next, count] : graph_.successors(node.get()))
      info.next.push_back({next ? next->segment.number : -1, count});
    explanation.segments.push_back(std::move(info));
  }
}

void Shadow::explain(Explanation &explanation) const {
  explainSegments(explanation);
  const SegmentBookFacts facts = compiled_.facts();
  explanation.compiledSegments = facts.compiled;
  explanation.compiledRuns = facts.runs;
  explanation.backwardsAgain = facts.again;
  explanation.notCompiled = facts.reasons;
  explanation.opaque = facts.opaque;
  std::lock_guard lock(mutex_);
  explanation.shadow = counters_;
  explanation.divergences.assign(divergences_.begin(), divergences_.end());
  explanation.overLimits.assign(overLimits_.begin(), overLimits_.end());
  explanation.verifyFindings.assign(verifyFindings_.begin(), verifyFindings_.end());
  explanation.borders = borders_;
  explanation.dynamic.assign(dynamic_.begin(), dynamic_.end());
  explanation.unknownShapes.assign(unknownShapes_.begin(), unknownShapes_.end());
}

} // namespace graphopt::driver
