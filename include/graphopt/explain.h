// What a compiled callable did and why: plain data, and a text for people.
#pragma once
#include <graphopt/export.h>

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace graphopt {

struct CallCounters {
  uint64_t calls = 0;
  uint64_t hits = 0;     ///< calls answered by a compiled variant
  uint64_t captures = 0; ///< calls that were recorded
  uint64_t misses = 0;   ///< calls that fitted no variant, the first call not counted
  uint64_t eagerRuns =
      0; ///< calls that ran as they are: variant limit, failed compile, disabled, nested in a recording
  uint64_t failures = 0;         ///< compiles that failed inside graphopt
  uint64_t audits = 0;           ///< Replay::audit: calls that ran in shadow and were compared with the plan
  uint64_t auditDifferences = 0; ///< audits that found a difference: from then on, calls run in shadow
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

/// Replay::shadow: what calls did.
struct ShadowCounters {
  uint64_t calls = 0;
  uint64_t shadowedCalls =
      0; ///< every deferred operator was as recorded: nothing was recorded, nothing diverged
  uint64_t recordings = 0;        ///< segments recorded
  uint64_t derivations = 0;       ///< segments for other sizes, worked out from recorded ones
  uint64_t divergences = 0;       ///< times a call left the path it was on
  uint64_t borders = 0;           ///< times a segment ended in the middle of a call
  uint64_t shadowedOperators = 0; ///< compared, and run with their segment
  uint64_t recordedOperators = 0; ///< run and written down
  uint64_t directOperators = 0;   ///< run as they are
  uint64_t filled = 0;            ///< placeholders that became real: results that outlived their segment
  uint64_t overLimitCalls = 0;  ///< calls of which a part ran eagerly: no more recordings are allowed there,
                                ///< or a verify run found a difference there
  uint64_t verifyRuns = 0;      ///< segments that were run a second time, on copies, and compared
  uint64_t verifySkips = 0;     ///< segments that were not: too much memory, or tensors that cannot be copied
  uint64_t verifyUndecided = 0; ///< verify runs whose results differ from run to run
  uint64_t verifyDifferences = 0;  ///< verify runs that found a difference
  uint64_t sampledOperators = 0;   ///< shadowed in calls whose host time was measured
  uint64_t sampledNanoseconds = 0; ///< host time of those calls, without the runs of their segments
};

/// Replay::shadow: operators between two points where the host needed a true value, or went different ways.
struct SegmentInfo {
  int number = 0;
  size_t operators = 0;
  uint64_t visits = 0;
  std::string border = {}; ///< why it ended when it was recorded; empty: the call ended
  std::string reason = {}; ///< why it was recorded although others were there
  std::vector<std::pair<int, uint64_t>> next =
      {};                               ///< segments that came after it, with counts; -1: the call ended
  std::string graph = {};               ///< as .gir text
  std::vector<std::string> guards = {}; ///< what is asked of tensors from outside
  std::string eagerReason = {};         ///< not empty: its operators run as they are, and why
  int derivedFrom = -1;                 ///< the segment that it was worked out from; -1: it was recorded
};

struct Explanation {
  std::string name;
  std::string replay;
  CallCounters counters = {};
  ShadowCounters shadow = {};
  std::vector<SegmentInfo> segments = {};
  std::map<std::string, uint64_t> borders = {}; ///< reasons, with counts
  std::vector<std::string> divergences = {};    ///< the last ones, oldest first
  std::vector<std::string> overLimits = {};     ///< why calls ran eagerly, the last ones
  std::vector<std::string> dynamic = {};        ///< sizes and integers that were seen to change
  std::vector<std::string> unknownShapes = {}; ///< operators whose results' sizes have no rule: recorded anew
  std::vector<std::string> verifyFindings = {}; ///< differences, and what was not verified: the last ones
  size_t compiledSegments = 0;                  ///< with gradients: forward and backward plans made
  uint64_t compiledRuns = 0;                    ///< of such plans
  /// Backwards that came in a way that no plan was made for (another autocast, other cotangents): the segment
  /// ran again, through autograd's nodes, and its next calls are compiled for that way.
  uint64_t backwardsAgain = 0;
  std::map<std::string, uint64_t> notCompiled = {}; ///< why others went through autograd's nodes, with counts
  std::map<std::string, uint64_t> opaque = {}; ///< operators in the plans that were not taken apart, and why
  std::vector<std::string> auditDifferences = {};
  std::vector<VariantInfo> variants = {};
  std::vector<MissInfo> misses = {};          ///< the last ones, oldest first
  std::vector<std::string> eagerReasons = {}; ///< each reason once
  std::string refusal = {};                   ///< not empty: calls throw this
  /// All of the above for people to read.
  GRAPHOPT_API std::string text() const;
};
GRAPHOPT_API std::ostream &operator<<(std::ostream &out, const Explanation &explanation);

} // namespace graphopt
