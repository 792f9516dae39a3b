// One program captured without kernels, against a real capture of it.
#pragma once
#include "pipeline_check.h"

namespace graphopt::corpus {

struct DryOutcome {
  Outcome::Verdict verdict = Outcome::Verdict::Equal;
  std::string reason;
  size_t captured = 0; ///< operators
  double dryMs = 0, realMs = 0;
};

/// The same graph, line by line; arguments, state and generators as they were. Refused: the program decides
/// by contents that a dry capture does not have, and it said so.
DryOutcome checkDry(const Factory &make, int64_t seed);

} // namespace graphopt::corpus
