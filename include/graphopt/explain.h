// What a compiled callable did and why: plain data, and a text for people.
#pragma once
#include <graphopt/export.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace graphopt {

struct CallCounters {
  uint64_t calls = 0;
  uint64_t hits = 0;     ///< calls answered by a compiled variant
  uint64_t captures = 0; ///< calls that were recorded
  uint64_t misses = 0;   ///< calls that fitted no variant, the first call not counted
  uint64_t eagerRuns =
      0; ///< calls that ran as they are: variant limit, failed compile, disabled, nested in a recording
  uint64_t failures = 0; ///< compiles that failed inside graphopt
};

/// A host read that ended what could be captured.
struct BorderInfo {
  std::string reason; ///< the operator: "item", "nonzero"
  std::string module; ///< "layer1.0"; empty at the top
  int64_t sequence = 0;
};

/// Why a call did not fit a variant: one guard, with both sides.
struct MissInfo {
  uint64_t call = 0;  ///< the number of the call, from 1
  size_t variant = 0; ///< the variant that was nearest
  int guard = -1;     ///< its guard's number
  std::string text;   ///< "guard #1 meta(%x) == f32[2, 16]"
  std::string actual; ///< "f32[3, 16]"
};

struct VariantInfo {
  uint64_t hits = 0;
  size_t capturedOps = 0;
  size_t plannedOps = 0;
  size_t followedReads = 0; ///< host reads that depended on sizes and constants only
  double compileMilliseconds = 0;
  std::vector<std::string> guards = {};
  std::string graph = {}; ///< the graph that runs, as .gir text; the captured one when nothing was compiled
  std::vector<BorderInfo> borders = {};
  std::string eagerReason = {}; ///< not empty: the variant runs eagerly, and why
};

struct Explanation {
  std::string name;
  std::string replay;
  CallCounters counters = {};
  std::vector<VariantInfo> variants = {};
  std::vector<MissInfo> misses = {};          ///< the last ones, oldest first
  std::vector<std::string> eagerReasons = {}; ///< each reason once
  std::string refusal = {};                   ///< not empty: calls throw this
  /// All of the above for people to read.
  GRAPHOPT_API std::string text() const;
};
GRAPHOPT_API std::ostream &operator<<(std::ostream &out, const Explanation &explanation);

} // namespace graphopt
