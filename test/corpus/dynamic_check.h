// All cases of one operator through one compiled callable with Dynamic::always, so that a case whose sizes or
// integers differ from an earlier one's is worked out from that one where a shape rule knows how. Each is
// compared with eager bit for bit, in results, strides and arguments.
#pragma once
#include "pipeline_check.h"

namespace graphopt::corpus {

struct DynamicCase {
  Factory make;
  CheckOptions options;
};

struct DynamicOutcome {
  Outcome::Verdict verdict = Outcome::Verdict::Equal;
  std::string reason;     ///< one line; of an equal case: the operators that no shape rule is known for
  bool isDerived = false; ///< worked out from another case
};

/// One outcome a case.
std::vector<DynamicOutcome> checkDynamic(const std::vector<DynamicCase> &cases);

} // namespace graphopt::corpus
