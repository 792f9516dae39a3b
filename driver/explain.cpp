// Explanation as text: one fact a line, in the order a user asks: what happened to my calls, why, under which
// guards.
#include <graphopt/explain.h>

#include <fmt/format.h>

#include <iterator>
#include <ostream>

namespace graphopt {
namespace {

using Out = std::back_insert_iterator<std::string>;

void writeVariant(Out out, size_t number, const VariantInfo &variant) {
  fmt::format_to(out, "variant {}: {} operators captured, {} planned, {} hits, compiled in {:.1f} ms\n",
                 number, variant.capturedOps, variant.plannedOps, variant.hits, variant.compileMilliseconds);
  if (!variant.eagerReason.empty())
    fmt::format_to(out, "  runs eagerly: {}\n", variant.eagerReason);
  if (variant.followedReads)
    fmt::format_to(out, "  host reads followed (they depend on sizes and constants only): {}\n",
                   variant.followedReads);
  for (const BorderInfo &border : variant.borders)
    fmt::format_to(out, "  border: {} at \"{}\" seq={}\n", border.reason, border.module, border.sequence);
  for (const std::string &guard : variant.guards)
    fmt::format_to(out, "  {}\n", guard);
}

void writeMiss(Out out, const MissInfo &miss) {
  fmt::format_to(out, "miss: call {}, variant {}: {} failed: actual {}\n", miss.call, miss.variant, miss.text,
                 miss.actual);
}

void writeSegment(Out out, const SegmentInfo &segment) {
  fmt::format_to(out, "segment {}: {} operators, {} visits, ends: {}\n", segment.number, segment.operators,
                 segment.visits, segment.border.empty() ? "the call ended" : segment.border);
  if (!segment.reason.empty())
    fmt::format_to(out, "  {}: {}\n", segment.derivedFrom < 0 ? "recorded because" : "derived",
                   segment.reason);
  if (!segment.eagerReason.empty())
    fmt::format_to(out, "  runs eagerly: {}\n", segment.eagerReason);
  for (const auto &[next, count] : segment.next)
    if (next < 0)
      fmt::format_to(out, "  then the end of the call: {} times\n", count);
    else
      fmt::format_to(out, "  then segment {}: {} times\n", next, count);
  for (const std::string &guard : segment.guards)
    fmt::format_to(out, "  {}\n", guard);
}

void writeShadow(Out out, const Explanation &explanation) {
  const ShadowCounters &counters = explanation.shadow;
  fmt::format_to(out,
                 "calls {}, all as recorded {}, recordings {}, divergences {}, borders {}, partly eager {}\n",
                 counters.calls, counters.shadowedCalls, counters.recordings, counters.divergences,
                 counters.borders, counters.overLimitCalls);
  fmt::format_to(out, "operators: {} shadowed, {} recorded, {} run directly; {} results filled in\n",
                 counters.shadowedOperators, counters.recordedOperators, counters.directOperators,
                 counters.filled);
  fmt::format_to(out, "verify runs {}: {} found a difference, {} undecided; {} skipped\n",
                 counters.verifyRuns, counters.verifyDifferences, counters.verifyUndecided,
                 counters.verifySkips);
  if (counters.sampledOperators)
    fmt::format_to(out, "host time: {} ns an operator, the program's own included\n",
                   counters.sampledNanoseconds / counters.sampledOperators);
  if (explanation.compiledSegments || !explanation.notCompiled.empty())
    fmt::format_to(out, "with gradients: {} segments compiled, {} runs of them\n",
                   explanation.compiledSegments, explanation.compiledRuns);
  if (explanation.backwardsAgain)
    fmt::format_to(out, "backwards that ran segments again, since they came in another way: {}\n",
                   explanation.backwardsAgain);
  for (const auto &[reason, count] : explanation.notCompiled)
    fmt::format_to(out, "through autograd's nodes: {} ({} times)\n", reason, count);
  for (const auto &[operatorAndReason, count] : explanation.opaque)
    fmt::format_to(out, "not taken apart: {} ({})\n", operatorAndReason, count);
  for (const std::string &text : explanation.verifyFindings)
    fmt::format_to(out, "verify run: {}\n", text);
  for (const SegmentInfo &segment : explanation.segments)
    writeSegment(out, segment);
  if (counters.derivations)
    fmt::format_to(out, "sizes that needed no recording: {} times\n", counters.derivations);
  for (const std::string &text : explanation.dynamic)
    fmt::format_to(out, "dynamic: {}\n", text);
  for (const std::string &text : explanation.unknownShapes)
    fmt::format_to(out, "recorded for each size: {}\n", text);
  for (const auto &[reason, count] : explanation.borders)
    fmt::format_to(out, "border: {} ({} times)\n", reason, count);
  for (const std::string &text : explanation.divergences)
    fmt::format_to(out, "divergence: {}\n", text);
  for (const std::string &text : explanation.overLimits)
    fmt::format_to(out, "over the limit: {}\n", text);
}

/// What replays that skip the host code did.
void writeTrusted(Out out, const Explanation &explanation) {
  const CallCounters &counters = explanation.counters;
  fmt::format_to(out, "calls {}, hits {}, captures {}, misses {}, eager runs {}, failed compiles {}\n",
                 counters.calls, counters.hits, counters.captures, counters.misses, counters.eagerRuns,
                 counters.failures);
  if (counters.audits)
    fmt::format_to(out, "audits {}, {} found a difference\n", counters.audits, counters.auditDifferences);
  for (const std::string &text : explanation.auditDifferences)
    fmt::format_to(out, "audit: {}\n", text);
  if (!explanation.refusal.empty())
    fmt::format_to(out, "refused: {}\n", explanation.refusal);
  for (size_t i = 0; i < explanation.variants.size(); ++i)
    writeVariant(out, i, explanation.variants[i]);
  for (const MissInfo &miss : explanation.misses)
    writeMiss(out, miss);
  for (const std::string &reason : explanation.eagerReasons)
    fmt::format_to(out, "eager run: {}\n", reason);
}

} // namespace

std::string Explanation::text() const {
  std::string text;
  const Out out(text);
  fmt::format_to(out, "{}: replay {}\n", name, replay);
  const bool isShadow = replay.starts_with("shadow");
  if (isShadow || shadow.calls > 0)
    writeShadow(out, *this);
  if (replay != "shadow")
    writeTrusted(out, *this);
  return text;
}

std::ostream &operator<<(std::ostream &out, const Explanation &explanation) {
  return out << explanation.text();
}

} // namespace graphopt
