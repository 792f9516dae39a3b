// Which memory holds values that follow from sizes and constants alone: host reads of it are facts, not
// borders.
#pragma once
#include "capture/trace.h"
#include "ir/effects.h"

namespace graphopt::capture {

/// Walked along the calls, in order.
///
/// A value is known when deterministic operators made it from known ones, from constants, from values that
/// host code made (their contents are facts of the graph already) or from nothing. Reading it gives the same
/// answer at each call for which the graph's guards hold.
class Provenance {
public:
  explicit Provenance(const Trace &trace);
  bool isKnown(const TraceCall &call) const; ///< all tensors it reads are known
  /// Takes the call's results and writes into account.
  void advance(const TraceCall &call, const ir::Effects &effects, const std::vector<FamilyId> &hiddenWrites);

private:
  bool areKnown(const std::vector<TraceOperand> &operands) const;
  const Trace &trace_;
  std::vector<bool> known_; // by family
};

} // namespace graphopt::capture
