// Runs rows of a segment through the dispatcher, one by one, each under the thread state it was recorded
// under.
#pragma once
#include "capture/frame.h"

namespace graphopt::capture {

/// As eager would have run them; see SegmentRun. Errors of operators pass through.
void replayRows(const SegmentRun &run);

} // namespace graphopt::capture
