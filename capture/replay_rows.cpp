// The plainest way to run a segment, and the measure of every other: used for the part of a segment that
// matched before a call went another way, and where no plan could be made.
#include "capture/replay_rows.h"

#include "capture/kept_casts.h"
#include "capture/meta_run.h"
#include "capture/thread_probe.h"

#include <ATen/autocast_mode.h>
#include <graphopt/error.h>

namespace graphopt::capture {
namespace {

/// The thread's dispatch keys and autograd and autocast state, set by hand and given back.
class StateScope {
public:
  explicit StateScope(bool keepsCasts)
      : keepsCasts_(keepsCasts), keys_(c10::impl::tls_local_dispatch_key_set()),
        autograd_(c10::AutogradState::get_tls_state()) {
    at::autocast::increment_nesting();
  }
  ~StateScope() {
    if (at::autocast::decrement_nesting() == 0)
      at::autocast::clear_cache();
    restoreAutocast();
    c10::AutogradState::set_tls_state(autograd_);
    c10::impl::_force_tls_local_dispatch_key_set(keys_);
  }
  void enter(const RowInfo &info, const Row &row) {
    if (row.thread != thread_ || isFirst_)
      setAutocast(row);
    isFirst_ = false;
    thread_ = row.thread;
    c10::AutogradState::set_tls_state(info.autograd);
    c10::impl::_force_tls_local_dispatch_key_set(info.keys);
  }

private:
  void setAutocast(const Row &row) {
    if (!ThreadProbe::autocast(row.thread))
      return;
    if (!saved_)
      saved_ = Autocast{};
    for (const c10::DeviceType device : {c10::kCPU, c10::kCUDA})
      if (ThreadProbe::autocast(row.thread, device))
        at::autocast::set_autocast_dtype(device, ThreadProbe::autocastDtype(row.thread, device));
    at::autocast::set_autocast_cache_enabled(keepsCasts_ && ThreadProbe::autocastCache(row.thread));
  }
  void restoreAutocast() {
    if (!saved_)
      return;
    at::autocast::set_autocast_dtype(c10::kCPU, saved_->cpu);
    at::autocast::set_autocast_dtype(c10::kCUDA, saved_->cuda);
    at::autocast::set_autocast_cache_enabled(saved_->cache);
  }
  struct Autocast {
    c10::ScalarType cpu = at::autocast::get_autocast_dtype(c10::kCPU);
    c10::ScalarType cuda = at::autocast::get_autocast_dtype(c10::kCUDA);
    bool cache = at::autocast::is_autocast_cache_enabled();
  };
  const bool keepsCasts_;
  c10::impl::LocalDispatchKeySet keys_;
  c10::AutogradState autograd_;
  std::optional<Autocast> saved_;
  ThreadWord thread_ = 0;
  bool isFirst_ = true;
};

class Replay {
public:
  Replay(const SegmentRun &run, const ReplayOptions &options)
      : run_(run), segment_(run.node->segment), observer_(options.observer), values_(segment_.values.size()),
        keepsCasts_(options.keepsCasts), state_(options.keepsCasts), casts_(weights()) {}

  void row(size_t i) {
    const RowInfo &info = segment_.infos[i];
    state_.enter(info, segment_.rows[i]);
    useCasts(i);
    stack_.clear();
    for (size_t a = 0; a < info.arguments.size(); ++a)
      push(i, a);
    if (observer_)
      observer_->before(i, stack_);
    info.op->callBoxed(stack_);
    if (observer_)
      observer_->after(i, stack_);
    takeResults(i);
    for (ValueId id : info.dying)
      values_[id] = at::Tensor();
  }

private:
  std::vector<at::Tensor> weights() const {
    std::vector<at::Tensor> weights;
    for (const TakenCast &taken : run_.casts)
      weights.push_back(run_.tensors[taken.value]);
    return weights;
  }

  void useCasts(size_t row) {
    for (; nextCast_ < run_.casts.size() && run_.casts[nextCast_].row == row; ++nextCast_) {
      const TakenCast &taken = run_.casts[nextCast_];
      if (!keepsCasts_ || !taken.cast.defined())
        continue;
      if (taken.awaitsHistory)
        giveHistory(run_.tensors[taken.value], taken.cast);
      casts_.use(run_.tensors[taken.value], taken.cast);
    }
  }

  const at::Tensor &value(ValueId id) const {
    return segment_.values[id].isLiveIn ? run_.tensors[id] : values_[id];
  }

  void push(size_t row, size_t argument) {
    const RowInfo &info = segment_.infos[row];
    const ArgumentFacts &facts = info.facts->arguments[argument];
    const ValueIds &ids = info.operands[argument];
    if (facts.role == ArgumentFacts::Role::Attr)
      return pushPlain(row, argument);
    if (facts.role == ArgumentFacts::Role::Tensor)
      return pushTensors(stack_, facts, info.arguments[argument], value(ids[0]));
    std::vector<at::Tensor> tensors;
    for (ValueId id : ids)
      tensors.push_back(value(id));
    pushTensors(stack_, facts, info.arguments[argument], tensors);
  }

  void pushPlain(size_t row, size_t argument) {
    for (const ScalarOverride &scalar : run_.scalars)
      if (scalar.row == row && scalar.argument == argument) {
        stack_.emplace_back(scalar.value);
        return;
      }
    stack_.push_back(segment_.infos[row].arguments[argument]);
  }

  void takeResults(size_t row) {
    const std::vector<ValueId> &ids = segment_.infos[row].results;
    size_t next = 0;
    for (c10::IValue &result : stack_) {
      if (result.isTensor()) {
        at::Tensor tensor = std::move(result).toTensor();
        take(row, ids[next++], std::move(tensor));
        continue;
      }
      std::vector<at::Tensor> items = result.toTensorVector();
      result = c10::IValue();
      for (at::Tensor &item : items)
        take(row, ids[next++], std::move(item));
    }
  }

  void take(size_t row, ValueId id, at::Tensor tensor) {
    bool isOperand = id == 0 || segment_.values[id].isLiveIn || values_[id].defined();
    if (isOperand) // returned as it is, or written in place
      return;
    const SegmentValue &expected = segment_.values[id];
    if (tensor.sizes() != c10::IntArrayRef(expected.metadata.sizes)) [[unlikely]]
      GO_ASSERT(false, "a result's sizes are not the recorded ones: " + segment_.infos[row].facts->name);
    if (run_.node->isDerived && tensor.strides() != c10::IntArrayRef(expected.metadata.strides)) [[unlikely]]
      GO_ASSERT(false, "a result's strides are not those worked out: " + segment_.infos[row].facts->name);
    values_[id] = run_.take(id, std::move(tensor));
  }

  const SegmentRun &run_;
  const Segment &segment_;
  RowObserver *const observer_;
  std::vector<at::Tensor> values_;
  torch::jit::Stack stack_;
  const bool keepsCasts_;
  StateScope state_;
  CastsAsTaken casts_;
  size_t nextCast_ = 0;
};

} // namespace

void replayRows(const SegmentRun &run, const ReplayOptions &options) {
  Replay replay(run, options);
  for (size_t i = 0; i < run.rows; ++i)
    replay.row(i);
}

} // namespace graphopt::capture
