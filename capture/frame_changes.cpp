// How a frame changes its state: into a segment, out of it by running what matched, and over to recording.
#include "capture/frame.h"

#include "capture/keys.h"
#include "capture/matching.h"
#include "capture/operands.h"

#include <graphopt/error.h>

#include <algorithm>
#include <bit>

namespace graphopt::capture {
namespace {

/// Whether a tensor is asked for gradients itself, as parameters are.
bool isLeaf(const c10::TensorImpl &impl) {
  const auto *meta = static_cast<const torch::autograd::AutogradMeta *>(autogradMeta(impl));
  return !meta || !meta->grad_fn_;
}

/// Gives tensors the requires_grad that the pending rows were matched under, for their run: the program may
/// have changed it after rows that used them.
class GradFlags {
public:
  void want(const at::Tensor &tensor, bool asks) {
    if (asksForGrad(*tensor.unsafeGetTensorImpl()) == asks || !isLeaf(*tensor.unsafeGetTensorImpl()))
      return;
    tensor.set_requires_grad(asks);
    changed_.push_back(tensor);
  }
  ~GradFlags() {
    for (const at::Tensor &tensor : changed_)
      tensor.set_requires_grad(!tensor.requires_grad());
  }

private:
  std::vector<at::Tensor> changed_;
};

/// Why a segment ends in front of an operator that could be put off.
std::string whyEndedBefore(const SegmentNode &node, const std::string &op, const std::string &module) {
  const std::string place = op + (module.empty() ? "" : " at " + module);
  return node.isCut ? place + ": calls went different ways in front of it twice"
                    : place + ": an earlier call ended in front of it";
}

/// What a call passed as it was recorded in `from` is nothing to note there, but something else in `to`.
void keepLateScalars(const Segment &from, const Segment &to, size_t rows,
                     std::vector<ScalarOverride> &scalars) {
  for (size_t i = 0; i < rows; ++i)
    for (const LateScalar &late : from.infos[i].late) {
      const Word word = from.infos[i].words[late.word];
      const bool isNoted = std::ranges::any_of(scalars, [&](const ScalarOverride &scalar) {
        return scalar.row == i && scalar.argument == late.argument;
      });
      if (!isNoted && word != to.infos[i].words[late.word])
        scalars.push_back({i, late.argument, std::bit_cast<double>(word)});
    }
}

} // namespace

// ---- into a segment

bool Frame::tryStarts(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                      torch::jit::Stack *stack) {
  for (const SegmentPtr &node : graph_.startingWith(&op.operator_name(), previous_.get())) {
    enter(activationOf(node));
    if (matchBoxed(*next_, facts, keys, *stack)) {
      if (node->isRefuted()) {
        runEagerly(node);
        return false;
      }
      giveBoxed(node->segment.rows[0], facts, *stack);
      if (guess_)
        *guess_ = active_;
      return true;
    }
    leave();
  }
  return false;
}

/// A segment that is not to be shadowed again begins: from here to the end of the call nothing is recorded.
void Frame::runEagerly(const SegmentPtr &node) {
  leave();
  random_.forget();
  if (isOverLimit_)
    return;
  isOverLimit_ = true;
  ++counters_.overLimit;
  host_.onOverLimit(graph_.refutationOf(*node));
}

/// Of all values, as bound in this visit.
std::vector<int64_t> Frame::offsetsNow() const {
  const std::vector<SegmentValue> &values = active_->node->segment.values;
  std::vector<int64_t> offsets(values.size());
  for (size_t id = 1; id < values.size(); ++id)
    offsets[id] = values[id].metadata.offset + active_->shifts[values[id].root];
  return offsets;
}

/// Goes on in another segment that begins with the rows matched so far. Their placeholders come along: equal
/// rows number their values alike, but may have been recorded at other offsets and with other late scalars.
void Frame::moveTo(Activation &other) {
  keepLateScalars(active_->node->segment, other.node->segment, matched_, scalars_);
  scalarsBefore_ = scalars_.size();
  size_t values = active_->node->segment.valuesBefore(matched_);
  for (size_t id = 1; id < values; ++id) {
    std::swap(active_->slots[id], other.slots[id]);
    std::swap(active_->placeholders[id], other.placeholders[id]);
    std::swap(active_->tensors[id], other.tensors[id]);
    std::swap(active_->shifts[id], other.shifts[id]);
    int64_t apart =
        active_->node->segment.values[id].metadata.offset - other.node->segment.values[id].metadata.offset;
    other.shifts[id] += apart;
    active_->shifts[id] -= apart;
  }
  for (size_t place = 0; place < bound_; ++place)
    std::swap(active_->kept[place], other.kept[place]);
  active_ = &other;
  expectRow(matched_);
  noteMemories();
}

bool Frame::tryAlternatives(const c10::OperatorHandle &op, const OperatorFacts &facts,
                            c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  Activation &first = *active_;
  const SegmentPtr node = first.node;
  const void *key = &op.operator_name();
  for (const SegmentPtr &other : graph_.alternatives(node, matched_)) {
    if (other->segment.rows[matched_].op != key || other->isRefuted())
      continue;
    moveTo(activationOf(other));
    const Row &row = *next_;
    size_t rows = matched_;
    if (matchBoxed(row, facts, keys, *stack)) {
      bool isBranch = rows == node->segment.size() || node->segment.rows[rows].op != key;
      if (isBranch)
        graph_.noteBranch(node, rows);
      giveBoxed(row, facts, *stack);
      return true;
    }
    moveTo(first);
  }
  return false;
}

/// The call is not that of the expected row, or the row is yet to be derived.
bool Frame::goOn(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                 torch::jit::Stack *stack) {
  if (!deriving())
    return tryAlternatives(op, facts, keys, stack) || tryTemplatesLike(op, facts, keys, stack);
  return tryKnownSizes(op, facts, keys, stack) || deriveNext(op, facts, keys, stack) ||
         tryTemplatesLike(op, facts, keys, stack);
}

// ---- out of it

std::vector<uint8_t> Frame::findWanted(bool &edgesTaken) {
  std::vector<uint8_t> wanted(active_->node->segment.valuesBefore(matched_), 0);
  auto hasTrap = [&](size_t id) { // a result whose history is still the one it was made with
    const Slot &slot = slots_[id];
    return slot.impl && !slot.isLiveIn && slot.meta && static_cast<Placeholder &>(*slot.impl).checkTrap();
  };
  for (size_t id = 1; id < wanted.size(); ++id) {
    if (!slots_[id].impl || slots_[id].isLiveIn)
      continue;
    wanted[id] = !active_->placeholders[id] || active_->placeholders[id].use_count() > 1;
    hasTrap(id);                                                         // keeps their count right
    if (!wanted[id] && active_->placeholders[id].weak_use_count() > 1) { // weak references have to expire
      active_->placeholders[id].reset();
      slots_[id] = {};
    }
  }
  edgesTaken = trap_.use_count() > 1 + trap_->holders;
  if (edgesTaken) // past the hooks: whoever did it finds the real history behind the trap
    for (size_t id = 1; id < wanted.size(); ++id)
      wanted[id] |= hasTrap(id);
  return wanted;
}

void Frame::runPending(const std::vector<uint8_t> &wanted, bool linkEdges, std::vector<at::Tensor> *kept) {
  const std::function<at::Tensor(ValueId, at::Tensor)> take = [&](ValueId id, at::Tensor result) {
    if (!wanted[id])
      return result;
    ++counters_.filled;
    at::Tensor filled = static_cast<Placeholder &>(*slots_[id].impl).fill(std::move(result), linkEdges);
    if (kept)
      (*kept)[id] = filled;
    return filled;
  };
  SettingsOf settings(active_->node->segment.settings, settings_.now());
  RandomWatch::Rewound rewound(random_);
  GradFlags flags;
  for (ValueId id : bound())
    flags.want(active_->tensors[id], active_->node->segment.values[id].metadata.requiresGrad);
  host_.run({active_->node, matched_, active_->tensors, scalars_, casts_, wanted, take});
}

/// Those the program holds are its own now; the next visit makes new ones.
void Frame::dropFilled(const std::vector<uint8_t> &wanted, bool edgesTaken) {
  for (size_t id = 1; id < wanted.size(); ++id) {
    if (!wanted[id])
      continue;
    auto &placeholder = static_cast<Placeholder &>(*slots_[id].impl);
    if (!placeholder.isFilled())
      placeholder.kill();
    active_->placeholders[id].reset();
    slots_[id] = {};
  }
  if (!edgesTaken)
    return;
  trap_ = std::make_shared<GradientTrap>();
  for (auto &[node, activation] : activations_)
    for (size_t id = 1; id < activation->slots.size(); ++id)
      if (activation->placeholders[id] && node->segment.values[id].metadata.requiresGrad) {
        activation->placeholders[id].reset();
        activation->slots[id] = {};
      }
}

void Frame::flush(std::vector<at::Tensor> *kept) {
  RunningScope running(isRunning_);
  c10::impl::ExcludeDispatchKeyGuard off(kCaptureHigh);
  next_ = nullptr;
  bool edgesTaken = false;
  const std::vector<uint8_t> wanted = findWanted(edgesTaken);
  if (kept) {
    kept->resize(wanted.size());
    for (ValueId id : bound())
      (*kept)[id] = active_->tensors[id];
  }
  std::exception_ptr error;
  try {
    runPending(wanted, edgesTaken, kept);
  } catch (...) {
    error = std::current_exception();
  }
  dropFilled(wanted, edgesTaken);
  leave();
  random_.forget();
  if (error)
    std::rethrow_exception(error);
}

void Frame::visit(const SegmentPtr &node) {
  ++node->visits;
  graph_.noteVisit(previous_.get(), node.get());
  previous_ = node;
}

/// The segment that the first rows of another are; made when it is new.
SegmentPtr Frame::endedAt(const SegmentPtr &node, size_t rows, const std::string &border) {
  if (rows == node->segment.size())
    return node;
  if (SegmentPtr known = graph_.exactly(node, rows))
    return known;
  ++counters_.divergences;
  host_.onDivergence(node, rows, border);
  Segment shorter = slice(node->segment, 0, rows);
  shorter.border = border;
  SegmentPtr ended = graph_.insert(std::move(shorter), "it ended earlier: " + border).back();
  graph_.noteBranch(node, rows);
  return ended;
}

bool Frame::settle(const std::string &border) {
  leaveUnbegun();
  if (state_ == State::Record)
    return closeRecording(border);
  if (state_ != State::Shadow)
    return false;
  bool isDerived = deriving() && matched_ == active_->node->segment.size();
  if (deriving() && !isDerived)
    active_->node->segment.settle();
  visit(isDerived ? finishDeriving()
                  : endedAt(active_->node, matched_, border.empty() ? "the call ended" : border));
  guess_ = &active_->follower;
  flush();
  if (!border.empty())
    expectSegment();
  return true;
}

void Frame::breakGraph(const std::string &reason) {
  if (!settle(reason))
    return;
  ++counters_.borders;
  host_.onBorder(reason);
}

// ---- recording

void Frame::diverge(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                    torch::jit::Stack *stack) {
  const SegmentPtr node = active_->node;
  const Segment &segment = node->segment;
  size_t rows = matched_;
  bool isEnd = rows == segment.size(); // the next operator begins another
  bool isOtherState = settings_.now() != segment.settings || !random_.isInStep();
  if (isEnd || isOtherState) {
    if (isEnd)
      breakGraph(whyEndedBefore(*node, facts.name, host_.currentModule()));
    else
      breakGraph("a process-wide switch or the generator's seed was changed");
    slowCall(op, facts, keys, stack);
    return;
  }
  if (deriving())
    node->segment.settle();
  bool isBranch = &segment.infos[rows].op->operator_name() != &op.operator_name();
  std::string reason = whyDifferent(facts, keys, *stack);
  ++counters_.divergences;
  host_.onDivergence(node, rows, reason);
  std::vector<at::Tensor> tensors;
  const std::vector<int64_t> offsets = offsetsNow();
  flush(&tensors);
  guess_ = nullptr;
  if (isBranch)
    graph_.noteBranch(node, rows);
  SegmentPtr border = node->isRetired ? graph_.exactly(node, rows) : nullptr;
  if (border || node->isRefuted() || !mayRecord(segment.rows[0].op, reason)) {
    if (border) {
      visit(border);
      ++counters_.borders;
      host_.onBorder(whyEndedBefore(*border, facts.name, host_.currentModule()));
    }
    slowCall(op, facts, keys, stack);
    return;
  }
  startRecording(reason);
  recorder_->resume(segment, rows, tensors, offsets);
  record(op, facts, keys, stack);
}

bool Frame::mayRecord(const void *op, const std::string &reason) {
  if (!isOverLimit_ && !(host_.allowsRecording(reason) && graph_.mayRecord(previous_.get(), op))) {
    isOverLimit_ = true;
    ++counters_.overLimit;
    host_.onOverLimit(reason);
  }
  return !isOverLimit_;
}

void Frame::startRecording(std::string reason) {
  recorder_ = std::make_unique<SegmentRecorder>(
      *this, [this](const at::Tensor &tensor) { return host_.nameOf(tensor); }, settings_.now());
  recordReason_ = std::move(reason);
  state_ = State::Record;
}

void Frame::record(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                   torch::jit::Stack *stack) {
  if (state_ == State::Start) {
    std::string reason = whyNoStart(op, facts, keys, *stack);
    if (!mayRecord(&op.operator_name(), reason)) {
      runDirectly(op, keys, stack);
      return;
    }
    startRecording(std::move(reason));
  }
  bool isDraw = draws(facts, stack->data() + (stack->size() - facts.arguments.size()));
  bool isInStep = settings_.now() == recorder_->segment().settings && (!isDraw || admitsDraw(facts, *stack));
  bool wasReplaced = false;
  forEachOperand(facts, *stack, [&](const c10::TensorImpl &impl, const ArgumentFacts &) {
    wasReplaced |= recorder_->wasReplaced(impl);
  });
  if ((!isInStep || wasReplaced) && recorder_->size() > 0) {
    breakGraph(wasReplaced ? "a tensor was changed past the dispatcher"
                           : "a process-wide switch or the generator's seed was changed");
    slowCall(op, facts, keys, stack);
    return;
  }
  ++counters_.recordedOps;
  RunningScope running(isRunning_);
  std::string trouble = recorder_->add(op, facts, keys, thread_.now(), stack, host_.currentModule());
  if (isDraw)
    random_.drew();
  if (!trouble.empty())
    breakGraph(facts.base + ": " + trouble);
}

bool Frame::closeRecording(const std::string &border) {
  std::unique_ptr<SegmentRecorder> recorder = std::move(recorder_);
  state_ = State::Start;
  guess_ = nullptr;
  random_.forget();
  if (recorder->size() == 0)
    return false;
  ++counters_.recordings;
  graph_.noteRecording(previous_.get(), recorder->segment().rows[0].op);
  std::vector<SegmentPtr> pieces = graph_.insert(recorder->finish(border), recordReason_);
  for (const SegmentPtr &piece : pieces)
    visit(piece);
  host_.onRecorded(pieces, recordReason_);
  for (size_t i = 1; i < pieces.size(); ++i) {
    const RowInfo &info = pieces[i]->segment.infos[0];
    ++counters_.borders;
    host_.onBorder(whyEndedBefore(*pieces[i - 1], info.facts->name, info.module));
  }
  return true;
}

} // namespace graphopt::capture
