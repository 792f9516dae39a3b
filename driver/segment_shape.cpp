// One walk over the rows for each question; asked once a segment and set of wanted results.
#include "driver/segment_shape.h"

#include "capture/thread_probe.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

namespace graphopt::driver {
namespace {

using capture::RowInfo;
using capture::Segment;
using capture::ValueId;
using Ids = std::unordered_set<ValueId>;

/// Factories are left out: LibTorch's C++ functions call them below autograd, which changes nothing.
bool runsPlainly(const Segment &segment) {
  for (size_t row = 0; row < segment.size(); ++row)
    if (segment.rows[row].isFactory)
      continue;
    else if (capture::ThreadProbe::inference(segment.rows[row].thread) ||
             segment.infos[row].keys.excluded_.has_any(c10::autograd_dispatch_keyset))
      return false;
  return true;
}

/// Graphs have the autocast state of one device.
bool castsForAnother(const Segment &segment) {
  return std::ranges::any_of(segment.rows, [&](const capture::Row &row) {
    return std::ranges::any_of(std::array{c10::kCPU, c10::kCUDA}, [&](c10::DeviceType device) {
      return device != segment.device.type() && capture::ThreadProbe::autocast(row.thread, device);
    });
  });
}

/// Families of memory that some row writes.
Ids writtenFamilies(const Segment &segment) {
  Ids families;
  for (const RowInfo &info : segment.infos)
    for (ValueId id : info.written)
      families.insert(segment.values[id].family);
  return families;
}

} // namespace

std::vector<passes::ResultFacts> resultFacts(const Segment &segment, const std::vector<ValueId> &wanted) {
  std::unordered_map<ValueId, size_t> sharers;
  for (ValueId id : wanted)
    ++sharers[segment.values[id].family];
  std::vector<passes::ResultFacts> facts;
  for (ValueId id : wanted) {
    const ValueId family = segment.values[id].family;
    facts.push_back(
        {segment.values[id].metadata.requiresGrad, segment.values[family].isLiveIn, sharers[family] > 1});
  }
  return facts;
}

uint32_t timesWritten(const Segment &segment, ValueId liveIn) {
  uint32_t times = 0;
  for (const RowInfo &info : segment.infos)
    for (size_t i = 0; i < info.operands.size(); ++i)
      if (info.facts->arguments[i].isWritten)
        for (ValueId id : info.operands[i])
          times += id != 0 && segment.values[id].family == segment.values[liveIn].family;
  return times;
}

std::vector<ValueId> wantedResults(const capture::SegmentRun &run) {
  std::vector<ValueId> ids;
  for (size_t id = 1; id < run.wanted.size(); ++id)
    if (run.wanted[id] && !run.node->segment.values[id].isLiveIn)
      ids.push_back(static_cast<ValueId>(id));
  return ids;
}

std::string reasonForAutograd(const Segment &segment, const std::vector<ValueId> &wanted) {
  const Ids written = writtenFamilies(segment);
  if (!runsPlainly(segment))
    return "some of it runs in inference mode or below autograd";
  if (castsForAnother(segment))
    return "some of it runs under autocast of another device than its own";
  if (std::ranges::any_of(wanted, [&](ValueId id) {
        return segment.values[id].family != id && written.contains(segment.values[id].family);
      }))
    return "a view of memory that was written leaves it";
  return "";
}

} // namespace graphopt::driver
