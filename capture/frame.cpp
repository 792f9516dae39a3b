// The life of a call, and its fast half: binding, comparing, handing out placeholders. Three rules keep it
// right. What is pending runs before anything could see that it had not: a read, a question, an operator that
// is not put off, the end of the call. Whether an operator is put off depends on the same facts while
// recording and while shadowing, so that borders stay where they are (frame_deferral.cpp). A mismatch is
// found before anything was computed: the rows that matched run, and the call goes on from there
// (frame_changes.cpp).
#include "capture/frame.h"

#include "capture/keys.h"
#include "capture/matching.h"
#include "capture/operands.h"
#include "capture/tensor_type.h"

#include <graphopt/error.h>

#include <algorithm>
#include <c10/core/CPUAllocator.h>

namespace graphopt::capture {

constinit thread_local Frame *currentFrame = nullptr;

namespace {

constexpr size_t kKeptActivations = 64;

/// Memory that PyTorch allocated, so that the host gets at it through tensors alone. Storages of a loaded
/// archive do not name their allocator, but free their memory by it.
bool isOwnMemory(const c10::StorageImpl &storage) {
  if (storage.allocator() != nullptr)
    return true;
  c10::DeleterFnPtr deleter = c10::GetCPUAllocator()->raw_deleter();
  return deleter && storage.data_ptr().get_deleter() == deleter;
}

/// Something that differs from thread to thread.
const void *threadToken() { return &currentFrame; }

} // namespace

Frame::Frame(TraceGraph &graph, FrameHost &host)
    : graph_(graph), host_(host), trap_(std::make_shared<GradientTrap>()) {}

Frame::~Frame() = default;

// ---- the call

void Frame::begin() {
  thread_ = ThreadProbe();
  threadToken_ = threadToken();
  settings_.refresh();
  state_ = State::Start;
  previous_ = nullptr;
  isOverLimit_ = false;
  currentFrame = this;
  setHookListener(this);
  setTensorWatcher(this);
  guess_ = &first_;
  expectSegment();
}

void Frame::end(bool failed) {
  std::exception_ptr error;
  try {
    settle(failed ? "the program threw" : "");
    if (!failed)
      graph_.noteVisit(previous_.get(), nullptr);
  } catch (...) {
    error = std::current_exception();
  }
  leaveUnbegun();
  state_ = State::Idle;
  previous_ = nullptr;
  hostMemory_.clear();
  currentFrame = nullptr;
  setHookListener(nullptr);
  setTensorWatcher(nullptr);
  trimActivations();
  if (error && !failed)
    std::rethrow_exception(error);
}

void Frame::finish() { end(false); }
void Frame::abandon() noexcept { end(true); }

void Frame::trimActivations() {
  bool hasRetired = std::exchange(generation_, graph_.generation()) != generation_;
  if (!hasRetired && activations_.size() <= kKeptActivations)
    return;
  first_ = nullptr;
  for (const auto &[node, activation] : activations_)
    activation->follower = nullptr;
  std::erase_if(activations_, [&](const auto &entry) {
    return entry.second->isRetired() || entry.second->lastUse + kKeptActivations < visits_;
  });
}

// ---- questions from outside the dispatcher

void Frame::onAccess(const c10::TensorImpl &tensor) {
  bool isOurs = threadToken_ == threadToken() && state_ != State::Idle;
  if (!isOurs && isPromised(tensor))
    userError(
        "a tensor of a compiled call that is still running is read by another thread: its values are not "
        "computed yet; read one of its elements on the calling thread first");
  if (!isOurs || isRunning_ || !(isPlaceholder(tensor) || isBound(tensor)))
    return;
  c10::impl::ExcludeDispatchKeyGuard off(kCaptureHigh);
  breakGraph("the program reads a tensor's memory");
  if (isPromised(tensor))
    userError("a tensor of a compiled call is read that no operator of it computes any more");
  // The program may keep the pointer and use it at any later point of the call.
  hostMemory_.emplace_back(tensor.unsafe_storage().getWeakStorageImpl());
}

/// Tensors that are kept stay under watch when nothing pending is about them.
bool Frame::isBound(const c10::TensorImpl &tensor) const {
  if (state_ == State::Record)
    return recorder_->knows(tensor);
  if (state_ != State::Shadow)
    return false;
  const std::span<const ValueId> values = bound();
  return std::any_of(values.begin(), values.end(), [&](ValueId id) { return slots_[id].impl == &tensor; });
}

void Frame::onFreed(const Placeholder &placeholder) {
  if (recorder_)
    recorder_->forget(placeholder);
  auto value = static_cast<size_t>(placeholder.value());
  if (active_ && value < active_->slots.size() && active_->slots[value].impl == &placeholder)
    active_->slots[value] = {};
}

void Frame::onQuestion(const c10::TensorImpl &impl) {
  if (isRunning_ || state_ == State::Idle || threadToken_ != threadToken() || !isPending(impl))
    return;
  c10::impl::ExcludeDispatchKeyGuard off(kCaptureHigh);
  breakGraph("the program asks for a tensor's history or version");
}

void Frame::onWholeState() {
  if (isRunning_ || state_ == State::Idle || threadToken_ != threadToken())
    return;
  c10::impl::ExcludeDispatchKeyGuard off(kCaptureHigh);
  breakGraph("backward, or a change of a tensor past the dispatcher");
}

bool Frame::isHostMemory(const c10::TensorImpl &tensor) {
  const c10::StorageImpl *storage = storageOf(tensor);
  if (!storage || tensor.numel() == 0)
    return false;
  for (const auto &weak : hostMemory_)
    if (auto alive = weak.lock(); alive.get() == storage)
      return true;
  if (isOwnMemory(*storage))
    return false;
  at::Tensor self = tensorOf(const_cast<c10::TensorImpl &>(tensor));
  SegmentRecorder::Name name = host_.nameOf(self);
  return !name.isParameter && !name.isBuffer;
}

// ---- shadowing

Frame::Activation &Frame::activationOf(const SegmentPtr &node) {
  std::unique_ptr<Activation> &activation = activations_[node.get()];
  if (!activation) {
    activation = std::make_unique<Activation>();
    activation->node = node;
    size_t values = node->segment.values.size();
    activation->slots.resize(values);
    activation->slots[0].set(c10::UndefinedTensorImpl::singleton());
    activation->placeholders.resize(values);
    activation->tensors.resize(values);
    activation->kept.resize(node->segment.liveIns.size() + 1);
    activation->shifts.resize(values);
  }
  activation->lastUse = ++visits_;
  return *activation;
}

void Frame::enter(Activation &activation) {
  active_ = &activation;
  matched_ = bound_ = 0;
  fresh_.clear();
  scalars_.clear();
  casts_.clear();
  boundBefore_ = scalarsBefore_ = 0;
  expectRow(0);
  noteMemories();
  state_ = State::Shadow;
}

/// Enters the segment that came at this point the last time: its first row then is matched as the others are.
/// Until it is, nothing is pending.
void Frame::expectSegment() {
  Activation *likely = guess_ ? *guess_ : nullptr;
  if (!likely || likely->isRetired() || likely->node->isRefuted())
    return;
  likely->lastUse = ++visits_;
  enter(*likely);
}

/// It was not that one.
void Frame::leaveUnbegun() {
  if (state_ == State::Shadow && matched_ == 0)
    leave();
}

/// Of the active segment; all that the fast part looks at.
void Frame::expectRow(size_t row) {
  const Segment &segment = active_->node->segment;
  slots_ = active_->slots.data();
  kept_ = active_->kept.data();
  expectedSettings_ = segment.settings;
  endOfRows_ = segment.rows.data() + segment.size();
  next_ = row < segment.size() ? &segment.rows[row] : nullptr;
}

void Frame::release(ValueId value) {
  unwatchTensor(*slots_[value].impl);
  slots_[value] = {};
  active_->tensors[value] = at::Tensor();
}

/// Live-ins that are kept stay under watch, also after the call: a report about one that is not bound is
/// dropped.
void Frame::leave() {
  written_.clear();
  dropCasts(0);
  for (ValueId value : fresh_)
    release(value);
  fresh_.clear();
  scalars_.clear();
  bound_ = boundBefore_ = scalarsBefore_ = 0;
  active_ = nullptr;
  slots_ = nullptr;
  next_ = nullptr;
  matched_ = 0;
  state_ = State::Start;
}

void Frame::shiftRoot(ValueId root, int64_t shift) {
  if (active_->shifts[root] == shift)
    return;
  active_->shifts[root] = shift;
  const Segment &segment = active_->node->segment;
  for (size_t id = 1; id < segment.values.size(); ++id)
    if (segment.values[id].root == root && !segment.values[id].isLiveIn && active_->placeholders[id])
      active_->placeholders[id]->set_storage_offset(segment.values[id].metadata.offset + shift);
}

/// The first live-in bound in this visit that has the memory; `value` when there is none.
ValueId Frame::firstWith(const c10::StorageImpl *memory, ValueId value) {
  return memories_.find(memory, value, [&](ValueId known) {
    return slots_[known].impl && storageOf(*slots_[known].impl) == memory;
  });
}

/// Of the live-ins bound so far, where the active segment writes into some.
void Frame::noteMemories() {
  const Segment &segment = active_->node->segment;
  if (!segment.writesLiveIns)
    return;
  memories_.begin(segment.liveIns.size());
  for (ValueId id : bound())
    firstWith(storageOf(*slots_[id].impl), id);
}

bool Frame::bindAnew(ValueId value, c10::TensorImpl &tensor) {
  const Segment &segment = active_->node->segment;
  const SegmentValue &expected = segment.values[value];
  if (isPromised(tensor) || !matches(expected.metadata, tensor))
    return false;
  const c10::StorageImpl *storage = storageOf(tensor);
  if (!storage || storage->allocator() == nullptr || !hostMemory_.empty()) [[unlikely]]
    if (isHostMemory(tensor))
      return false;
  if (segment.writesLiveIns && segment.values[firstWith(storage, value)].family != expected.family)
    return false;
  shiftRoot(value, tensor.storage_offset() - expected.metadata.offset);
  watchTensor(tensor, *this); // the program may touch its memory while rows that read it are pending
  slots_[value].set(&tensor);
  slots_[value].isLiveIn = true;
  bool isState = expected.isParameter || expected.isBuffer;
  bool isKept = isState && !segment.writesLiveIns && active_->shifts[value] == 0 && isOwnMemory(*storage) &&
                isWatched(tensor) && KeptTensor::admits(tensor);
  GO_ASSERT(segment.liveIns[bound_] == value, "live-ins are used in another order than they are numbered");
  KeptTensor &kept = active_->kept[bound_++];
  if (isKept) {
    kept.keep(tensor);
  } else {
    kept.forget();
    fresh_.push_back(value);
  }
  active_->tensors[value] = tensorOf(tensor);
  return true;
}

bool Frame::bindScalar(const Word *word, double value) {
  const RowInfo &info = active_->node->segment.infos[matched_];
  auto position = static_cast<uint32_t>(word - info.words.data());
  for (const LateScalar &late : info.late)
    if (late.word == position) {
      if (isSpecialNumber(value))
        return false;
      scalars_.push_back({matched_, late.argument, value});
      return true;
    }
  return false;
}

void Frame::undo() {
  while (bound_ > boundBefore_) {
    ValueId value = bound().back();
    --bound_;
    if (!fresh_.empty() && fresh_.back() == value)
      fresh_.pop_back();
    active_->kept[bound_].forget();
    release(value);
  }
  scalars_.resize(scalarsBefore_);
}

/// A pending write has to be noticed by whoever reads the memory meanwhile: possible when only the bound
/// tensors, all of them watched, hold it.
bool Frame::admitsWrites(const RowInfo &info) {
  const std::vector<SegmentValue> &values = active_->node->segment.values;
  for (ValueId value : info.armed) {
    Slot &slot = slots_[value];
    if (slot.isWritten)
      continue;
    const auto owners = std::ranges::count_if(info.armed, [&](ValueId other) { // bound as they were recorded
      return values[other].family == values[value].family;
    });
    if (slot.impl->unsafe_storage().use_count() > static_cast<size_t>(owners) ||
        !watchTensor(*slot.impl, *this))
      return false;
    slot.isWritten = true;
    written_.push_back(active_->tensors[value]);
  }
  return true;
}

namespace {
/// A value whose device is that of the row's draw.
ValueId aboutValue(const RowInfo &info) {
  for (const ValueIds &ids : info.operands)
    for (ValueId id : ids)
      if (id != 0)
        return id;
  return info.results.empty() ? 0 : info.results[0];
}
} // namespace

bool Frame::admitsDraw(const OperatorFacts &facts, const torch::jit::Stack &stack) {
  std::optional<c10::Device> device;
  forEachOperand(facts, stack, [&](const c10::TensorImpl &impl, const ArgumentFacts &) {
    device = device ? device : impl.device();
  });
  const c10::IValue *values = stack.data() + (stack.size() - facts.arguments.size());
  for (size_t i = 0; i < facts.arguments.size() && !device; ++i)
    if (values[i].isDevice())
      device = values[i].toDevice();
  return random_.admits(device.value_or(c10::kCPU));
}

bool Frame::acceptEffects(const Row &row) {
  const Segment &segment = active_->node->segment;
  const RowInfo &info = segment.infos[matched_];
  if (row.writesLiveIn && !admitsWrites(info))
    return false;
  if (row.isRandom && !random_.admits(segment.values[aboutValue(info)].metadata.device))
    return false;
  return !row.castsWeights || takeCasts(info);
}

at::Tensor Frame::make(const Row &row, ValueId value) {
  RunningScope running(isRunning_); // making a history asks the tensor about itself
  const SegmentValue &expected = active_->node->segment.values[value];
  auto made = Placeholder::make(expected.metadata, value, this, trap_);
  if (int64_t shift = active_->shifts[expected.root])
    made->set_storage_offset(expected.metadata.offset + shift);
  slots_[value].set(made.get());
  if (!row.isFactory) // else the program gets the only reference: LibTorch's own factories count on that
    active_->placeholders[value] = made;
  return at::Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(std::move(made)));
}

bool Frame::matchBoxed(const Row &row, const OperatorFacts &facts, c10::DispatchKeySet keys,
                       const torch::jit::Stack &stack) {
  if (!stateMatches(row, keys))
    return false;
  Matcher matcher(*this, row);
  WordReader<Matcher> reader(matcher);
  const c10::IValue *values = stack.data() + (stack.size() - facts.arguments.size());
  for (size_t i = 0; i < facts.arguments.size(); ++i) {
    const ArgumentFacts &argument = facts.arguments[i];
    if (!reader.boxed(values[i], argument.role != ArgumentFacts::Role::Attr, argument.isNumber)) {
      undo();
      return false;
    }
  }
  if (accept(row))
    return true;
  undo();
  return false;
}

void Frame::giveBoxed(const Row &row, const OperatorFacts &facts, torch::jit::Stack &stack) {
  ++counters_.shadowedOps;
  torch::jit::drop(stack, facts.arguments.size());
  size_t result = 0;
  for (size_t i = 0; i < facts.returnsList.size(); ++i) {
    if (!facts.returnsList[i]) {
      stack.emplace_back(give(row, result++));
      continue;
    }
    c10::List<at::Tensor> list;
    list.reserve(row.resultCount);
    while (result < row.resultCount)
      list.push_back(give(row, result++));
    stack.emplace_back(std::move(list));
  }
}

void Frame::onCall(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  if (isRunning_ || state_ == State::Idle) {
    op.redispatchBoxed(keys, stack);
    return;
  }
  const OperatorFacts &facts = factsOf(op);
  const Row *row = next_;
  if (row && row->op == &op.operator_name() && matchBoxed(*row, facts, keys, *stack))
    giveBoxed(*row, facts, *stack);
  else
    slowCall(op, facts, keys, stack);
}

} // namespace graphopt::capture
