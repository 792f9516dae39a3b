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

} // namespace

std::string Explanation::text() const {
  std::string text;
  const Out out(text);
  fmt::format_to(out, "{}: replay {}\n", name, replay);
  fmt::format_to(out, "calls {}, hits {}, captures {}, misses {}, eager runs {}, failed compiles {}\n",
                 counters.calls, counters.hits, counters.captures, counters.misses, counters.eagerRuns,
                 counters.failures);
  if (!refusal.empty())
    fmt::format_to(out, "refused: {}\n", refusal);
  for (size_t i = 0; i < variants.size(); ++i)
    writeVariant(out, i, variants[i]);
  for (const MissInfo &miss : misses)
    writeMiss(out, miss);
  for (const std::string &reason : eagerReasons)
    fmt::format_to(out, "eager run: {}\n", reason);
  return text;
}

std::ostream &operator<<(std::ostream &out, const Explanation &explanation) {
  return out << explanation.text();
}

} // namespace graphopt
