// A segment is compiled once for each set of results that leave it; what cannot be is remembered with its
// reason.
#include "driver/segment_book.h"

#include "capture/replay_rows.h"
#include "capture/thread_probe.h"
#include "driver/log.h"
#include "driver/segment_shape.h"

#include <fmt/format.h>
#include <graphopt/error.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace graphopt::driver {

namespace {

using capture::SegmentPtr;
using capture::SegmentRun;

/// The segment whose rows and flags the run's are.
SegmentPtr recordedOf(const SegmentRun &run) {
  return run.node->isDerived ? run.node->base.lock() : run.node;
}

/// Notes gradients as they come to the node that it is put on.
class NotesBackward final : public torch::autograd::FunctionPreHook {
public:
  /// `result`: the number of the node's output `output`.
  NotesBackward(std::shared_ptr<LastBackward> last, uint32_t result, const at::Tensor &tensor)
      : last_(std::move(last)), result_(result), output_(tensor.output_nr()),
        strides_(tensor.strides().vec()) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list &gradients) override {
    last_->noteAutocast(capture::ThreadProbe::autocastOf(capture::ThreadProbe().now()));
    if (output_ < gradients.size())
      last_->note(result_, formOf(gradients[output_], strides_));
    return gradients;
  }

private:
  const std::shared_ptr<LastBackward> last_;
  const uint32_t result_;
  const size_t output_;
  const std::vector<int64_t> strides_;
};

} // namespace

bool SegmentBook::run(const SegmentRun &run) {
  if (!wantsGradients(run))
    return false;
  if (const std::string reason = reasonAgainst(run); !reason.empty()) {
    count(reason);
    return false;
  }
  const SegmentPtr recorded = recordedOf(run);
  if (!recorded) {
    count("the segment that was recorded is gone");
    return false;
  }
  const Found found = find(run, recorded);
  if (!found.isObserved) {
    observe(run, recorded, found.last);
    return true;
  }
  if (!found.segment) {
    count(found.reason);
    return false;
  }
  if (const std::string reason = found.segment->reasonAgainst(run); !reason.empty()) {
    count(reason);
    return false;
  }
  found.segment->run(run, found.syms);
  std::lock_guard lock(mutex_);
  ++facts_.runs;
  return true;
}

void SegmentBook::count(const std::string &reason) {
  std::lock_guard lock(mutex_);
  constexpr size_t kKept = 64;
  if (facts_.reasons.size() < kKept || facts_.reasons.contains(reason))
    ++facts_.reasons[reason];
}

/// An entry that was observed is compiled.
SegmentBook::Found SegmentBook::find(const SegmentRun &run, const SegmentPtr &recorded) {
  std::lock_guard lock(mutex_);
  Entry &entry = entries_[{recorded.get(), run.wanted}];
  if (entry.node.lock() != recorded) {
    entry = {};
    entry.node = recorded;
    entry.last = std::make_shared<LastBackward>();
  }
  if (!entry.versions)
    return {false, entry.last, nullptr, {}, ""};
  const BackwardKey key = keyOf(entry);
  Plans &plans = entry.plans[key];
  if (run.node->isDerived)
    return findSized(run, recorded, entry, key, plans);
  if (!plans.segment && plans.reason.empty())
    plans.segment = compile(run, recorded, entry, key, {}, plans.reason);
  return {true, entry.last, plans.segment, {}, plans.reason};
}

/// Where backwards keep coming in other ways, plans for the plainest have to do.
BackwardKey SegmentBook::keyOf(const Entry &entry) {
  constexpr size_t kMostKinds = 8;
  BackwardKey key = entry.last->key();
  return entry.plans.contains(key) || entry.plans.size() < kMostKinds ? key : BackwardKey{key.autocast, {}};
}

/// Each size that none of the plans holds for tells more about how sizes hang together; a few are enough.
SegmentBook::Found SegmentBook::findSized(const SegmentRun &run, const SegmentPtr &recorded,
                                          const Entry &entry, const BackwardKey &key, Plans &plans) {
  constexpr size_t kMostMembers = 3;
  const capture::Segment &now = run.node->segment;
  auto known = [&]() -> std::optional<Found> {
    for (const Compiled &segment : plans.sized)
      if (auto syms = segment->sizesOf(now))
        return Found{true, entry.last, segment, std::move(*syms), ""};
    return std::nullopt;
  };
  if (std::optional<Found> found = known())
    return *found;
  if (plans.sizedReason.empty() && plans.members.size() < kMostMembers) {
    plans.members.push_back(now);
    plans.members.back().settle(); // its rows point into the frame's segment, which goes on changing
    std::vector<const capture::Segment *> others;
    for (const capture::Segment &member : plans.members)
      others.push_back(&member);
    if (Compiled segment = compile(run, recorded, entry, key, others, plans.sizedReason))
      plans.sized.insert(plans.sized.begin(), std::move(segment));
    if (std::optional<Found> found = known())
      return *found;
  }
  return {true,
          entry.last,
          nullptr,
          {},
          plans.sizedReason.empty() ? "its sizes follow no expression" : plans.sizedReason};
}

/// Runs the rows, and notes the versions that results are left with (operators made of others write inside),
/// and how gradients come to them.
void SegmentBook::observe(const SegmentRun &run, const SegmentPtr &recorded,
                          const std::shared_ptr<LastBackward> &last) {
  std::vector<std::pair<capture::ValueId, c10::VariableVersion>> seen;
  std::vector<uint32_t> awaited;
  const std::function<at::Tensor(capture::ValueId, at::Tensor)> take = [&](capture::ValueId id,
                                                                           at::Tensor tensor) {
    if (!tensor.is_inference())
      seen.emplace_back(id, torch::autograd::impl::version_counter(tensor));
    if (const auto &history = tensor.grad_fn()) {
      history->add_pre_hook(std::make_unique<NotesBackward>(last, id, tensor));
      awaited.push_back(id);
    }
    return run.take(id, std::move(tensor));
  };
  capture::replayRows({run.node, run.rows, run.tensors, run.scalars, run.casts, run.wanted, take});
  last->await(std::move(awaited));
  ResultVersions versions;
  for (const auto &[id, version] : seen)
    versions[id] = version.current_version();
  std::lock_guard lock(mutex_);
  Entry &entry = entries_[{recorded.get(), run.wanted}];
  if (entry.last == last) // else everything was forgotten meanwhile
    entry.versions = std::move(versions);
}

/// Null when it cannot be, for the reason that is then given.
SegmentBook::Compiled SegmentBook::compile(const SegmentRun &run, const SegmentPtr &recorded,
                                           const Entry &entry, const BackwardKey &key,
                                           const std::vector<const capture::Segment *> &others,
                                           std::string &reason) {
  try {
    Lowering &lowering = lowerings_.try_emplace(recorded->segment.settings, pieceFolder()).first->second;
    auto segment = std::make_shared<const CompiledSegment>(
        recorded->segment, others, wantedResults(run), *entry.versions,
        BackwardPlanning{key, entry.last, {}, choices_}, lowering);
    ++facts_.compiled;
    for (const auto &[operatorAndReason, count] : segment->opaque())
      facts_.opaque[operatorAndReason] += count;
    return segment;
  } catch (const std::exception &error) {
    const std::string what = error.what();
    reason = fmt::format("segment {}: {}", recorded->segment.number, what.substr(0, what.find('\n')));
    log(Channel::shadow, "not compiled: " + reason);
    return nullptr;
  }
}

SegmentBookFacts SegmentBook::facts() const {
  std::lock_guard lock(mutex_);
  SegmentBookFacts facts = facts_;
  for (const auto &[key, entry] : entries_)
    if (entry.last)
      facts.again += entry.last->timesAgain();
  return facts;
}

void SegmentBook::clear() {
  std::lock_guard lock(mutex_);
  for (const auto &[key, entry] : entries_)
    facts_.again += entry.last ? entry.last->timesAgain() : 0;
  entries_.clear();
}

} // namespace graphopt::driver
