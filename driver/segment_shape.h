// Whether a segment's results can come from a plan: what has to be known of it beside its operators.
#pragma once
#include "capture/frame.h"
#include "passes/graph_parts.h"

#include <string>
#include <vector>

namespace graphopt::driver {

/// The results that somebody holds and the rows made, in order.
std::vector<capture::ValueId> wantedResults(const capture::SegmentRun &run);

/// What a plan below autograd with one node behind it could not show as eager does; empty when there is
/// nothing. `wanted`: what leaves the segment.
std::string reasonForAutograd(const capture::Segment &segment, const std::vector<capture::ValueId> &wanted);

/// What is known of each of them.
std::vector<passes::ResultFacts> resultFacts(const capture::Segment &segment,
                                             const std::vector<capture::ValueId> &wanted);

/// How often operators that say so write the memory of a live-in: so much do they raise its version.
uint32_t timesWritten(const capture::Segment &segment, capture::ValueId liveIn);

} // namespace graphopt::driver
