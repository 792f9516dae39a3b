// A segment is compiled once for each set of results that leave it; what cannot be is remembered with its
// reason.
#include "driver/segment_book.h"

#include "driver/log.h"

#include <fmt/format.h>
#include <graphopt/error.h>

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

SegmentBook::Entry SegmentBook::find(const SegmentRun &run) {
  std::lock_guard lock(mutex_);
  Entry &entry = entries_[{run.node.get(), run.wanted}];
  if (entry.node.lock() != run.node)
    entry = compile(run);
  return entry;
}

SegmentBook::Entry SegmentBook::compile(const SegmentRun &run) {
  Entry entry{run.node, nullptr, ""};
  try {
    entry.segment = std::make_shared<const CompiledSegment>(run, lowering_);
    ++facts_.compiled;
  } catch (const std::exception &error) {
    const std::string what = error.what();
    entry.reason = fmt::format("segment {}: {}", run.node->segment.number, what.substr(0, what.find('\n')));
    log(Channel::shadow, "not compiled: " + entry.reason);
  }
  return entry;
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
