// Layouts have to be eager's whatever the rule for values is.
#include "tools/verify_report.h"

#include "capture/capture.h"
#include "runtime/compare.h"

#include <fmt/format.h>

namespace graphopt::tools {
namespace {

/// What a result must share with eager's beside its values.
std::string layoutDifference(const at::Tensor &eager, const at::Tensor &actual) {
  if (eager.layout() != actual.layout())
    return "layout differs";
  const ir::Type want = capture::typeOf(eager), got = capture::typeOf(actual);
  return want == got ? "" : fmt::format("{}, eager gives {}", ir::toString(got), ir::toString(want));
}

} // namespace

void Report::compare(const std::string &name, const at::Tensor &eager, const at::Tensor &actual,
                     const at::Tensor &oracle, bool always) {
  if (!eager.defined() && !actual.defined())
    return;
  if (eager.defined() != actual.defined())
    return fail(
        fmt::format("{}: {}", name, eager.defined() ? "missing, eager gives a tensor" : "eager gives none"));
  if (const std::string layout = layoutDifference(eager, actual); !layout.empty())
    return fail(fmt::format("{}: {}", name, layout));
  const runtime::Difference difference = runtime::compare(eager, actual);
  std::string line = fmt::format("{}: {} max_abs={:.3g} max_rel={:.3g} max_ulp={:.3g}", name,
                                 ir::toString(capture::typeOf(actual)), difference.maxAbsolute,
                                 difference.maxRelative, difference.maxUlp);
  if (difference.bitEqual && !always)
    return;
  line += difference.bitEqual ? " equal" : fmt::format(" ({} elements)", difference.mismatches);
  if (!oracle.defined() && !difference.bitEqual)
    return fail(line);
  if (!oracle.defined()) {
    text_ += line + "\n";
    return;
  }
  const runtime::OracleVerdict verdict = runtime::compareWithOracle(oracle, eager, actual);
  line += fmt::format(" fp64: error {:.3g}, eager's {:.3g}", verdict.maxError, verdict.maxEager);
  if (!verdict.pass)
    return fail(line + ": " + verdict.reason);
  text_ += line + "\n";
}

std::string Report::finish(const std::string &what) const {
  return text_ + (passed() ? fmt::format("pass: {} {}\n", what, bars_ ? "within the bars" : "equal to eager")
                           : fmt::format("MISS: {} of the values above differ from eager\n", misses_));
}

void compareAll(Report &report, const std::string &name, const std::vector<at::Tensor> &eager,
                const std::vector<at::Tensor> &actual, const std::vector<at::Tensor> &oracle, bool always) {
  if (eager.size() != actual.size())
    return report.fail(fmt::format("{}: {} tensors, eager gives {}", name, actual.size(), eager.size()));
  for (size_t i = 0; i < eager.size(); ++i)
    report.compare(fmt::format("{}{}", name, i), eager[i], actual[i],
                   i < oracle.size() ? oracle[i] : at::Tensor(), always);
}

} // namespace graphopt::tools
