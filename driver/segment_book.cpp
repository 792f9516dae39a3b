// A segment is compiled once for each set of results that leave it; what cannot be is remembered with its
// reason.
#include "driver/segment_book.h"

#include "capture/replay_rows.h"
#include "driver/log.h"

#include <fmt/format.h>
#include <graphopt/error.h>
#include <torch/csrc/autograd/variable.h>

namespace graphopt::driver {

using capture::SegmentRun;

bool SegmentBook::run(const SegmentRun &run) {
  if (!wantsGradients(run))
    return false;
  if (const std::string reason = reasonAgainst(run); !reason.empty()) {
    count(reason);
    return false;
  }
  const Entry entry = find(run);
  if (!entry.versions) {
    observe(run);
    return true;
  }
  if (!entry.segment) {
    count(entry.reason);
    return false;
  }
  entry.segment->run(run);
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
SegmentBook::Entry SegmentBook::find(const SegmentRun &run) {
  std::lock_guard lock(mutex_);
  Entry &entry = entries_[{run.node.get(), run.wanted}];
  if (entry.node.lock() != run.node)
    entry = Entry{run.node, std::nullopt, nullptr, ""};
  if (entry.versions && !entry.segment && entry.reason.empty())
    compile(run, entry);
  return entry;
}

/// Runs the rows, and notes the versions that results are left with: operators made of others write inside.
void SegmentBook::observe(const SegmentRun &run) {
  std::vector<std::pair<capture::ValueId, c10::VariableVersion>> seen;
  const std::function<at::Tensor(capture::ValueId, at::Tensor)> take = [&](capture::ValueId id,
                                                                           at::Tensor tensor) {
    if (!tensor.is_inference())
      seen.emplace_back(id, torch::autograd::impl::version_counter(tensor));
    return run.take(id, std::move(tensor));
  };
  capture::replayRows({run.node, run.rows, run.tensors, run.scalars, run.wanted, take});
  ResultVersions versions;
  for (const auto &[id, version] : seen)
    versions[id] = version.current_version();
  std::lock_guard lock(mutex_);
  entries_[{run.node.get(), run.wanted}].versions = std::move(versions);
}

void SegmentBook::compile(const SegmentRun &run, Entry &entry) {
  try {
    Lowering &lowering = lowerings_.try_emplace(run.node->segment.settings, pieceFolder()).first->second;
    entry.segment = std::make_shared<const CompiledSegment>(run, *entry.versions, lowering);
    ++facts_.compiled;
  } catch (const std::exception &error) {
    const std::string what = error.what();
    entry.reason = fmt::format("segment {}: {}", run.node->segment.number, what.substr(0, what.find('\n')));
    log(Channel::shadow, "not compiled: " + entry.reason);
  }
}

SegmentBookFacts SegmentBook::facts() const {
  std::lock_guard lock(mutex_);
  return facts_;
}

void SegmentBook::clear() {
  std::lock_guard lock(mutex_);
  entries_.clear();
}

} // namespace graphopt::driver
