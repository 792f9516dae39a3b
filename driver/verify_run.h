// The verify run: a segment runs once on the program's tensors, row by row as eager would, and once beside,
// on copies of what it reads. What differs was caused by what no dispatcher can see: an operator that writes
// or remembers more than its schema says, or a mistake of graphopt's.
//
// The program's values are always those of the first run.
#pragma once
#include "capture/replay_rows.h"

#include <functional>
#include <string>

namespace graphopt::driver {

/// How a segment is run beside its rows. Operators from outside of aten are shown to the observer.
using BesideRun = std::function<void(const capture::SegmentRun &run, capture::RowObserver &observer)>;

struct VerifyVerdict {
  enum class Kind {
    Same,
    Skipped,   ///< not compared: the limit, or tensors that cannot be copied
    Undecided, ///< the rows themselves give other results each time, or somebody else wrote meanwhile
    Different,
  };
  Kind kind = Kind::Same;
  std::string text;                             ///< unless the same
  const capture::OperatorFacts *liar = nullptr; ///< the operator that is to blame, where one is
};

/// Runs `run`, and `beside` on copies of at most `limit` bytes. Errors of the first run pass through.
VerifyVerdict verifyRun(const capture::SegmentRun &run, const BesideRun &beside, size_t limit);

/// The rows themselves, as long as there is no other plan.
void runRowsBeside(const capture::SegmentRun &run, capture::RowObserver &observer);

} // namespace graphopt::driver
