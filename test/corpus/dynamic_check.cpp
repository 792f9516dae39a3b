// The steps of dynamic_check.h.
#include "dynamic_check.h"

#include "comparison.h"

#include <graphopt/compile.h>
#include <graphopt/error.h>

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace graphopt::corpus {
namespace {

/// A case's results, arguments after the call, and error.
struct Seen {
  std::vector<at::Tensor> results, args;
  std::string error;
};

std::string firstLine(const std::string &text) {
  return text.substr(0, std::min<size_t>(text.find('\n'), 300));
}

Seen seenOf(const DynamicCase &item, const std::function<std::vector<at::Tensor>(Instance &)> &call) {
  Seen seen;
  Instance instance = item.make();
  seedAll(item.options.seed);
  try {
    seen.results = call(instance);
  } catch (const std::exception &error) {
    seen.error = firstLine(error.what());
  }
  seen.args = leavesOf(instance.args);
  return seen;
}

std::string difference(const Seen &want, const Seen &got, bool shapeOnly) {
  if (want.error.empty() != got.error.empty())
    return want.error.empty() ? got.error : "no error, eager says: " + want.error;
  std::string d = differenceIn("result", want.results, got.results, shapeOnly);
  return d.empty() ? differenceIn("argument", want.args, got.args, shapeOnly) : d;
}

} // namespace

std::vector<DynamicOutcome> checkDynamic(const std::vector<DynamicCase> &cases) {
  Instance *current = nullptr;
  std::vector<at::Tensor> results;
  auto fast = compile([&] { results = leavesOf({current->program->call(current->args)}); },
                      {.dynamic = Dynamic::always, .strict = true, .recompileLimit = 4096});
  std::vector<DynamicOutcome> outcomes(cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    const uint64_t derivations = fast.explain().shadow.derivations;
    Seen want = seenOf(cases[i],
                       [](Instance &instance) { return leavesOf({instance.program->call(instance.args)}); });
    Seen got = seenOf(cases[i], [&](Instance &instance) {
      current = &instance;
      fast();
      return std::exchange(results, {});
    });
    outcomes[i].isDerived = fast.explain().shadow.derivations > derivations;
    outcomes[i].reason = difference(want, got, cases[i].options.shapeOnly);
    if (!outcomes[i].reason.empty())
      outcomes[i].verdict = Outcome::Verdict::Wrong;
    else
      outcomes[i].reason = fmt::format("{}", fmt::join(fast.explain().unknownShapes, " "));
  }
  return outcomes;
}

} // namespace graphopt::corpus
