// One call in flight: where it is in the trace graph, the placeholders it has given out, and what is pending.
//
// A frame is in one of three states. `Start`: nothing is pending; the next operator begins a segment.
// `Shadow`: the operators since the segment began equal its first rows and none has run. `Record`: operators
// run, and become rows of a new segment. frame.cpp has the call and the comparison (with matching.h, the fast
// part), frame_deferral.cpp what is put off, frame_changes.cpp the changes of state, frame_derive.cpp other
// sizes than those recorded, miss.cpp the reasons for people.
#pragma once
#include "capture/handler.h"
#include "capture/kept_tensor.h"
#include "capture/memory_table.h"
#include "capture/random_watch.h"
#include "capture/segment_recorder.h"
#include "capture/tensor_access.h"
#include "capture/tensor_hooks.h"
#include "capture/thread_probe.h"
#include "capture/trace_graph.h"

#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <span>

namespace graphopt::capture {

/// A float that this call passed, other than the recorded one.
struct ScalarOverride {
  size_t row;
  uint32_t argument;
  double value;
};

/// The cast that autocast kept of a weight when a row came: one for each of RowInfo::weights that has one, in
/// order; undefined where the tensor is no weight in this call.
struct TakenCast {
  size_t row;
  ValueId value;
  at::Tensor cast;
  bool awaitsHistory = false; ///< giveHistory() is to come when the row runs
};

/// Marks that operators run for real, as long as it lives.
class RunningScope {
public:
  explicit RunningScope(bool &flag) : flag_(flag), before_(std::exchange(flag, true)) {}
  ~RunningScope() { flag_ = before_; }
  RunningScope(const RunningScope &) = delete;
  RunningScope &operator=(const RunningScope &) = delete;

private:
  bool &flag_;
  bool before_;
};

/// Rows to run now.
struct SegmentRun {
  const SegmentPtr &node;
  size_t rows;                            ///< of the segment; fewer than all when the call went another way
  const std::vector<at::Tensor> &tensors; ///< by value: the live-ins
  const std::vector<ScalarOverride> &scalars;
  const std::vector<TakenCast> &casts;
  /// By value: results that somebody holds. Each is handed to take() as soon as it is there, and what take()
  /// gives back is used in its place.
  const std::vector<uint8_t> &wanted;
  const std::function<at::Tensor(ValueId, at::Tensor)> &take;
};

/// What a frame needs of the callable it belongs to.
class FrameHost {
public:
  virtual void run(const SegmentRun &run) = 0;
  /// The parameter, buffer or argument a tensor is; empty when it is none.
  virtual SegmentRecorder::Name nameOf(const at::Tensor &tensor) = 0;
  /// The module path of the operator that is called now; empty at the top or when it is not known.
  virtual std::string currentModule() = 0;
  /// Whether something new may be recorded, and why that is needed. Throws when it is an error.
  virtual bool allowsRecording(const std::string &reason) = 0;
  /// A segment ends in the middle of the call. Throws when that is an error to the user.
  virtual void onBorder(const std::string &reason) = 0;
  virtual void onDivergence(const SegmentPtr &node, size_t row, const std::string &reason) = 0;
  virtual void onRecorded(const std::vector<SegmentPtr> &pieces, const std::string &reason) = 0;
  /// Sizes of the operator's results follow no known rule: it has to be recorded for each size.
  virtual void onUnknownShape(const std::string &operatorName) = 0;
  /// From here to the end of the call operators may run as they are: as many segments as allowed begin here.
  virtual void onOverLimit(const std::string &reason) = 0;

protected:
  ~FrameHost() = default;
};

struct FrameCounters {
  uint64_t shadowedOps = 0, recordedOps = 0, directOps = 0, filled = 0, divergences = 0, borders = 0,
           recordings = 0, derivations = 0, overLimit = 0;
};

class Frame final : public OperatorSink, public PlaceholderOwner, public HookListener {
public:
  Frame(TraceGraph &graph, FrameHost &host);
  ~Frame();
  Frame(const Frame &) = delete;
  Frame &operator=(const Frame &) = delete;

  /// The program is about to run on this thread.
  void begin();
  /// It has returned; its results are held by the caller. What is pending runs. Errors of operators pass
  /// through.
  void finish();
  /// It threw: what is pending runs, so that the state is as eager's at that point.
  void abandon() noexcept;
  /// Counted since they were last taken.
  FrameCounters takeCounters() { return std::exchange(counters_, {}); }

  // OperatorSink, PlaceholderOwner, HookListener
  void onCall(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) override;
  void onAccess(const c10::TensorImpl &tensor) override;
  void onFreed(const Placeholder &placeholder) override;
  void onQuestion(const c10::TensorImpl &impl) override;
  void onWholeState() override;

  // ---- the fast part: used by matching.h

  /// The row that the next operator must equal; null when none can.
  const Row *next() const { return next_; }
  [[gnu::always_inline]] bool stateMatches(const Row &row, c10::DispatchKeySet keys) {
    return row.keys == keys.raw_repr() && row.thread == thread_.now() && settings_.now() == expectedSettings_;
  }
  struct Slot {
    c10::TensorImpl *impl = nullptr;
    const c10::AutogradMetaInterface *meta = nullptr;
    const c10::StorageImpl *storage = nullptr; // null: promised
    bool isLeafWithGrad = false;
    bool isLiveIn = false;
    bool isWritten = false; // a live-in with a pending write
    void set(c10::TensorImpl *tensor) {
      impl = tensor;
      storage = tensor->unsafe_storage().unsafeGetStorageImpl();
      meta = autogradMeta(std::as_const(*tensor));
      isLeafWithGrad = meta && static_cast<const torch::autograd::AutogradMeta *>(meta)->requires_grad_;
    }
    [[gnu::always_inline]] bool is(const c10::TensorImpl &tensor) const {
      if (impl != &tensor || meta != autogradMeta(tensor) ||
          storage != tensor.unsafe_storage().unsafeGetStorageImpl())
        return false;
      return !meta ||
             static_cast<const torch::autograd::AutogradMeta *>(meta)->requires_grad_ == isLeafWithGrad;
    }
  };
  Slot *slots() { return slots_; }
  [[gnu::always_inline]] bool bind(ValueId value, c10::TensorImpl &tensor) {
    const KeptTensor &kept = kept_[bound_]; // live-ins are numbered in the order of their first use
    if (!kept.isSame(tensor) || !hostMemory_.empty()) [[unlikely]]
      return bindAnew(value, tensor);
    ++bound_;
    (&kept + 1)->prefetch();
    return true;
  }
  bool bindScalar(const Word *word, double value);
  /// The row's arguments were equal. False: it may not be deferred after all, and nothing has changed.
  [[gnu::always_inline]] bool accept(const Row &row) {
    if (row.writesLiveIn || row.isRandom || row.castsWeights) [[unlikely]]
      if (!acceptEffects(row))
        return false;
    ++matched_;
    boundBefore_ = bound_;
    scalarsBefore_ = scalars_.size();
    next_ = &row + 1 != endOfRows_ ? &row + 1 : nullptr;
    return true;
  }
  void countShadowed() { ++counters_.shadowedOps; }
  /// The row's arguments were not equal: takes its bindings back.
  void undo();
  /// A result of a row that was accepted.
  [[gnu::always_inline]] at::Tensor give(const Row &row, size_t result) {
    ValueId value = row.results[result];
    Slot &slot = slots_[value];
    if (!slot.impl) [[unlikely]]
      return make(row, value);
    return tensorOf(*slot.impl);
  }

private:
  enum class State : uint8_t { Idle, Start, Shadow, Record };
  /// Of a segment that follows the calls: frame_derive.cpp.
  struct Derivation {
    Template from;
    std::vector<std::vector<uint32_t>> users; ///< by value: rows that take it
    bool isOther = false;                     ///< in this visit something differed from the last
    bool hasOtherSizes = false;               ///< of a tensor that it takes
  };
  Derivation *deriving() const;
  /// A segment with this frame's placeholders for its values. Kept between visits.
  struct Activation {
    SegmentPtr node;
    std::vector<Slot> slots;                                   // by value
    std::vector<c10::intrusive_ptr<Placeholder>> placeholders; // by value, of results
    std::vector<at::Tensor> tensors;                           // by value: live-ins of this visit
    std::vector<KeptTensor> kept; // by place among the live-ins: those held from visit to visit; and one more
    std::vector<int64_t> shifts;  // by root: its offset, minus that recorded
    Activation *follower = nullptr;         // entered after it the last time
    std::unique_ptr<Derivation> derivation; // null: it is one of the graph's
    bool isRetired() const { return (derivation ? derivation->from.base : node)->isRetired; }
    uint64_t lastUse = 0;
  };

  Activation &activationOf(const SegmentPtr &node);
  void enter(Activation &activation);
  void expectSegment();
  void leaveUnbegun();
  void expectRow(size_t row);
  void release(ValueId value);
  /// The live-ins bound in this visit, in order.
  std::span<const ValueId> bound() const { return {active_->node->segment.liveIns.data(), bound_}; }
  bool isBound(const c10::TensorImpl &tensor) const;
  bool matchBoxed(const Row &row, const OperatorFacts &facts, c10::DispatchKeySet keys,
                  const torch::jit::Stack &stack);
  void giveBoxed(const Row &row, const OperatorFacts &facts, torch::jit::Stack &stack);
  bool tryAlternatives(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                       torch::jit::Stack *stack);
  bool tryStarts(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                 torch::jit::Stack *stack);
  bool goOn(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
            torch::jit::Stack *stack);
  void slowCall(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                torch::jit::Stack *stack);
  void diverge(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
               torch::jit::Stack *stack);
  void record(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
              torch::jit::Stack *stack);
  void runDirectly(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack);
  void runOpen(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack);
  bool bindAnew(ValueId value, c10::TensorImpl &tensor);
  ValueId firstWith(const c10::StorageImpl *memory, ValueId value);
  void noteMemories();
  at::Tensor make(const Row &row, ValueId value);
  bool acceptEffects(const Row &row);
  bool admitsWrites(const RowInfo &info);
  bool takeCasts(const RowInfo &info);
  void dropCasts(size_t kept);
  void shiftRoot(ValueId root, int64_t shift);
  bool isHostMemory(const c10::TensorImpl &tensor);
  bool isPending(const c10::TensorImpl &tensor) const;
  bool anyWritePending() const;
  bool anyPending(const OperatorFacts &facts, const torch::jit::Stack &stack) const;
  bool mayRunAtOnce(const OperatorFacts &facts, const torch::jit::Stack &stack);
  struct Operands;
  Operands look(const OperatorFacts &facts, const torch::jit::Stack &stack);
  bool isShared(const c10::TensorImpl &impl) const;
  std::string whyNowForValues(const OperatorFacts &facts, const Operands &operands,
                              const torch::jit::Stack &stack) const;
  std::string whyNow(const OperatorFacts &facts, c10::DispatchKeySet keys, const Operands &operands,
                     const torch::jit::Stack &stack) const;
  bool runNow(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
              torch::jit::Stack *stack);
  /// Ends what is in flight: runs pending rows, or closes the recording. `border`: why; empty: the call
  /// ended. False: nothing was in flight.
  bool settle(const std::string &border);
  /// The same in the middle of a call, which is counted and said, and may be an error to the user: thrown
  /// when all before it has run.
  void breakGraph(const std::string &reason);
  /// Runs the rows matched so far and leaves the segment. `kept`: gets, by value, the tensors that live on.
  void flush(std::vector<at::Tensor> *kept = nullptr);
  void runPending(const std::vector<uint8_t> &wanted, bool linkEdges, std::vector<at::Tensor> *kept);
  std::vector<uint8_t> findWanted(bool &edgesTaken);
  void dropFilled(const std::vector<uint8_t> &wanted, bool edgesTaken);
  void leave();
  void runEagerly(const SegmentPtr &node);
  void moveTo(Activation &other);
  std::vector<int64_t> offsetsNow() const;
  SegmentPtr endedAt(const SegmentPtr &node, size_t rows, const std::string &border);
  void visit(const SegmentPtr &node);
  void end(bool failed);
  void trimActivations();

  bool mayRecord(const void *op, const std::string &reason);
  void startRecording(std::string reason);
  bool closeRecording(const std::string &border);
  bool admitsDraw(const OperatorFacts &facts, const torch::jit::Stack &stack);
  // ---- frame_derive.cpp: segments of other sizes, worked out from recorded ones
  bool tryTemplates(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                    torch::jit::Stack *stack);
  bool tryTemplatesLike(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                        torch::jit::Stack *stack);
  bool tryKnownSizes(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                     torch::jit::Stack *stack);
  bool deriveNext(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                  torch::jit::Stack *stack);
  bool deriveRow(const OperatorFacts &facts, c10::DispatchKeySet keys, const torch::jit::Stack &stack);
  bool deriveResultsOf(size_t row);
  void setMetadata(Activation &activation, ValueId id, Metadata metadata, size_t row);
  bool bindVarying(ValueId value, c10::TensorImpl &tensor, bool &isOther);
  Activation &followerOf(Template from);
  void adoptPrefix(Activation &derived, size_t rows);
  SegmentPtr finishDeriving();
  friend struct DerivingSink;

  /// How the call differs from the row that was expected.
  std::string whyDifferent(const OperatorFacts &facts, c10::DispatchKeySet keys,
                           const torch::jit::Stack &stack);
  /// How it differs from the likeliest segment that begins with the operator.
  std::string whyNoStart(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                         const torch::jit::Stack &stack);

  TraceGraph &graph_;
  FrameHost &host_;
  State state_ = State::Idle;
  const Row *next_ = nullptr;
  const Row *endOfRows_ = nullptr;
  Slot *slots_ = nullptr;
  const KeptTensor *kept_ = nullptr;
  SettingsId expectedSettings_ = 0; // of the active segment
  Activation *active_ = nullptr;
  Activation *first_ = nullptr;  // entered first in the last call
  Activation **guess_ = nullptr; // where the activation is noted that is likely entered next
  size_t matched_ = 0;
  bool isRunning_ = false; // operators run for real: what they touch is their business
  std::unordered_map<const SegmentNode *, std::unique_ptr<Activation>> activations_;
  size_t bound_ = 0;           // live-ins bound in this visit
  std::vector<ValueId> fresh_; // those of them that are not kept for the next
  MemoryTable memories_;       // of the live-ins bound in this visit
  std::vector<ScalarOverride> scalars_;
  std::vector<TakenCast> casts_;               // of the rows matched
  size_t boundBefore_ = 0, scalarsBefore_ = 0; // before the row being matched
  std::vector<at::Tensor> written_;            // live-ins with a pending write
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>>
      hostMemory_; // memory that the program touched itself
  std::shared_ptr<GradientTrap> trap_;
  ThreadProbe thread_;
  SettingsProbe settings_;
  RandomWatch random_;
  std::unique_ptr<SegmentRecorder> recorder_;
  std::string recordReason_;
  SegmentPtr previous_; // segment visited before, in this call
  const void *threadToken_ = nullptr;
  bool isOverLimit_ = false;
  uint64_t visits_ = 0, generation_ = 0; // of the graph, when activations were last looked through
  FrameCounters counters_;
};

/// The frame of the call in flight on this thread.
extern constinit thread_local Frame *currentFrame;

} // namespace graphopt::capture
