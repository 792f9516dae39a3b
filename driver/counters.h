// Counters of calls that many threads bump at once.
#pragma once
#include <graphopt/explain.h>

#include <atomic>

namespace graphopt::driver {

struct AtomicCounters {
  std::atomic<uint64_t> calls{0}, hits{0}, captures{0}, misses{0}, eagerRuns{0}, failures{0}, audits{0},
      auditDifferences{0};
  CallCounters snapshot() const {
    return {calls, hits, captures, misses, eagerRuns, failures, audits, auditDifferences};
  }
};

} // namespace graphopt::driver
