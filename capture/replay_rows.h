// Runs rows of a segment through the dispatcher, one by one, each under the thread state it was recorded
// under.
#pragma once
#include "capture/frame.h"

namespace graphopt::capture {

/// Sees the rows as they run.
class RowObserver {
public:
  /// The row's arguments, as its operator gets them.
  virtual void before(size_t row, const torch::jit::Stack &arguments) = 0;
  /// What it returned.
  virtual void after(size_t row, const torch::jit::Stack &results) = 0;

protected:
  ~RowObserver() = default;
};

struct ReplayOptions {
  RowObserver *observer = nullptr;
  /// False: autocast keeps no casts of this run, which outlives nobody.
  bool keepsCasts = true;
};

/// As eager would have run them; see SegmentRun. Errors of operators pass through.
void replayRows(const SegmentRun &run, const ReplayOptions &options = {});

} // namespace graphopt::capture
