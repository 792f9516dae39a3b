// Order: copies, the program's run, then the run beside. A difference is held against the run beside only
// when the rows, run once more, agree with the first run: kernels may add in any order, and other threads may
// write.
#include "driver/verify_run.h"

#include "capture/random_watch.h"
#include "driver/live_copies.h"
#include "driver/row_witness.h"
#include "driver/same_values.h"

#include <ATen/record_function.h>
#include <c10/core/GradMode.h>

#include <algorithm>

namespace graphopt::driver {
namespace {

using capture::Segment;
using capture::SegmentRun;
using capture::ValueId;
using Kind = VerifyVerdict::Kind;

/// Generators are left as they were found, when the segment may draw.
class Draws {
public:
  explicit Draws(const SegmentRun &run) {
    const Segment &segment = run.node->segment;
    bool mayDraw = false;
    for (size_t i = 0; i < run.rows; ++i)
      mayDraw |= segment.rows[i].isRandom || !segment.infos[i].facts->isTrusted;
    if (!mayDraw)
      return;
    for (size_t id = 1; id < segment.valuesBefore(run.rows); ++id)
      if (c10::Device device = segment.values[id].metadata.device;
          std::ranges::find(devices_, device) == devices_.end())
        devices_.push_back(device);
    before_.emplace(devices_);
  }
  ~Draws() {
    if (after_)
      after_->restore();
  }
  Draws(const Draws &) = delete;
  Draws &operator=(const Draws &) = delete;
  /// The program's run has drawn.
  void firstDone() {
    if (before_)
      after_.emplace(devices_);
  }
  void again() {
    if (before_)
      before_->restore();
  }
  bool areAsAfterFirst() const { return !after_ || after_->areCurrent(); }

private:
  std::vector<c10::Device> devices_;
  std::optional<capture::GeneratorStates> before_, after_;
};

std::string nameOf(const Segment &segment, ValueId value) {
  const std::string &name = segment.values[value].name;
  return name.empty() ? fmt::format("a tensor from outside (number {})", value) : "'" + name + "'";
}

class VerifyRun {
public:
  VerifyRun(const SegmentRun &run, const BesideRun &beside, size_t limit)
      : run_(run), segment_(run.node->segment), beside_(beside), copies_(boundTensors(run)), draws_(run),
        witness_(segment_, limit), results_(run.wanted.size()), othersResults_(run.wanted.size()) {
    findWritten();
  }

  VerifyVerdict operator()() {
    runFirst();
    keepSuspects();
    try {
      return compare();
    } catch (const std::exception &error) {
      return {Kind::Undecided, fmt::format("cannot be compared: {}", error.what()), nullptr};
    }
  }

private:
  static std::vector<at::Tensor> boundTensors(const SegmentRun &run) {
    std::vector<at::Tensor> tensors = run.tensors;
    tensors.resize(run.node->segment.values.size());
    return tensors;
  }

  /// Memory that the rows say they write.
  void findWritten() {
    isWritten_.assign(copies_.memories() + 1, false);
    for (size_t i = 0; i < run_.rows; ++i)
      for (ValueId value : segment_.infos[i].armed)
        isWritten_[copies_.memoryOf(value)] = true;
    for (size_t m = 0; m < copies_.memories(); ++m)
      if (isWritten_[m])
        copies_.keep(m);
  }

  void runFirst() {
    const std::function<at::Tensor(ValueId, at::Tensor)> take = [&](ValueId id, at::Tensor result) {
      const std::vector<int64_t> sizes = result.sizes().vec();
      at::Tensor taken = run_.take(id, std::move(result));
      if (run_.wanted[id] && taken.sizes() == sizes) // else the program has given it other memory meanwhile
        results_[id] = taken;
      return taken;
    };
    capture::replayRows({run_.node, run_.rows, run_.tensors, run_.scalars, run_.casts, run_.wanted, take},
                        {.observer = &witness_.first()});
    draws_.firstDone();
  }

  /// Memory that changed without a row that says so: by an operator, which then does it to the copy too, or
  /// by another thread.
  void keepSuspects() {
    for (size_t m = 0; m < copies_.memories(); ++m)
      if (!isWritten_[m] && !copies_.agree(m)) {
        suspects_.push_back(m);
        copies_.keep(m);
      }
  }

  void runOnCopies(const BesideRun &how) {
    const at::DisableRecordFunctionGuard unseen;
    std::ranges::fill(othersResults_, at::Tensor());
    const std::function<at::Tensor(ValueId, at::Tensor)> take = [&](ValueId id, at::Tensor result) {
      if (run_.wanted[id])
        othersResults_[id] = result;
      return result;
    };
    draws_.again();
    error_.clear();
    try {
      how({run_.node, run_.rows, copies_.tensors(), run_.scalars, run_.casts, run_.wanted, take},
          witness_.second());
    } catch (const c10::OutOfMemoryError &) {
      throw;
    } catch (const std::exception &error) {
      error_ = fmt::format("the run beside threw: {}", error.what());
    }
  }

  VerifyVerdict compare() {
    runOnCopies(beside_);
    if (witness_.liar())
      return {Kind::Different, witness_.text(), witness_.liar()};
    for (size_t m : suspects_)
      if (copies_.changed(m))
        return {Kind::Different,
                nameOf(segment_, static_cast<ValueId>(copies_.firstIn(m))) +
                    " is written by an operator that does not declare it",
                nullptr};
    if (!suspects_.empty())
      return {Kind::Undecided, "another thread wrote what the segment reads", nullptr};
    const std::string text = difference();
    if (text.empty())
      return {};
    copies_.renew();
    runOnCopies(runRowsBeside);
    const std::string again = difference();
    if (again.empty())
      return {Kind::Different, text, nullptr};
    return {Kind::Undecided, again + ": its operators answer differently each time", nullptr};
  }

  /// Between the program's values and those of the run beside.
  std::string difference() const {
    if (!error_.empty())
      return error_;
    if (!draws_.areAsAfterFirst())
      return "other random numbers were drawn";
    for (size_t id = 1; id < results_.size(); ++id)
      if (results_[id].defined())
        if (std::string text = valueDifference(results_[id], othersResults_[id]); !text.empty())
          return fmt::format("a result of {}: {}", makerOf(static_cast<ValueId>(id)), text);
    for (ValueId id : segment_.liveIns)
      if (static_cast<size_t>(id) < run_.tensors.size() && run_.tensors[id].defined() &&
          isWritten_[copies_.memoryOf(id)])
        if (std::string text = valueDifference(run_.tensors[id], copies_.tensors()[id]); !text.empty())
          return fmt::format("{}, which is written: {}", nameOf(segment_, id), text);
    for (size_t m = 0; m < copies_.memories(); ++m)
      if (!isWritten_[m] && !copies_.agree(m))
        return nameOf(segment_, static_cast<ValueId>(copies_.firstIn(m))) +
               ", which is not written: other values";
    return "";
  }

  static std::string valueDifference(const at::Tensor &want, const at::Tensor &got) {
    if (std::string text = metadataDifference(want, got); !text.empty() || !want.defined())
      return text;
    const Nearness allowed = want.is_cpu() ? Nearness::Same : Nearness::Rounding;
    return nearness(want, got) <= allowed ? "" : "other values";
  }

  std::string makerOf(ValueId value) const {
    for (size_t i = 0; i < run_.rows; ++i)
      if (std::ranges::find(segment_.infos[i].results, value) != segment_.infos[i].results.end())
        return segment_.infos[i].facts->name;
    return "no row";
  }

  const SegmentRun &run_;
  const Segment &segment_;
  const BesideRun &beside_;
  LiveCopies copies_;
  Draws draws_;
  RowWitness witness_;
  std::vector<at::Tensor> results_, othersResults_; // by value: what somebody holds
  std::vector<bool> isWritten_;                     // by memory
  std::string error_;                               // of the run beside
  std::vector<size_t> suspects_;                    // memories
};

} // namespace

void runRowsBeside(const SegmentRun &run, capture::RowObserver &observer) {
  capture::replayRows(run, {.observer = &observer, .keepsCasts = false});
}

VerifyVerdict verifyRun(const SegmentRun &run, const BesideRun &beside, size_t limit) {
  std::optional<VerifyRun> both;
  VerifyVerdict skipped{Kind::Skipped, "", nullptr};
  if (const size_t bytes = LiveCopies::bytesOf(run.tensors); bytes > limit) {
    skipped.text = fmt::format("it reads {} bytes, more than the limit of {}", bytes, limit);
  } else {
    try {
      both.emplace(run, beside, limit);
    } catch (const std::exception &error) {
      skipped.text = error.what();
    }
  }
  if (both)
    return (*both)();
  capture::replayRows(run);
  return skipped;
}

} // namespace graphopt::driver
