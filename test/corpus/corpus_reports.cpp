// corpus-reports DATA: the cases that public bug reports suggested (reports/). As they are, each runs several
// rounds of its sets through compile() beside eager: the first is compared with what is saved, all with
// eager, bit for bit. Or each set at the lowered or the core stage. Exits 1 when one differs.
#include "arguments.h"
#include "comparison.h"
#include "lowered_check.h"
#include "report_case.h"

#include <graphopt/compile.h>

#include <ATen/Parallel.h>
#include <cstdio>
#include <fmt/format.h>
#include <fstream>
#include <sstream>

using namespace graphopt::corpus;

namespace {

struct Settings {
  Selection selection;
  std::string expected;
  bool lowered = false, core = false;

  const char *way() const { return lowered ? "lowered" : core ? "core" : "compiled"; }
};

constexpr int kRounds = 5; // recorded, verified, observed, compiled, and once more

struct Row {
  std::string kind = "equal"; ///< or close, refused, differs
  std::string note;
};

std::string differenceOfValues(const ReportRun &want, const ReportRun &got) {
  std::string d = differenceIn("result", want.results, got.results);
  if (d.empty())
    d = differenceIn("argument", want.arguments, got.arguments);
  return d.empty() ? differenceIn("buffer", want.buffers, got.buffers) : d;
}

std::string noteOf(const graphopt::Explanation &explanation) {
  std::string note = fmt::format("{} compiled runs", explanation.compiledRuns);
  for (const auto &[reason, count] : explanation.notCompiled)
    note += fmt::format("; {} times not: {}", count, reason);
  return note;
}

/// All rounds through compile(). Close: gradients are within the case's tolerance, but not eager's bits.
Row compiledRow(const ReportCase &item) {
  const torch::jit::Module eager = item.load(), module = item.load();
  const graphopt::CompiledScript fast = graphopt::compile(module);
  std::shared_ptr<graphopt::capture::Program> program = graphopt::capture::torchScriptProgram(eager);
  Row row;
  for (int round = 0; round < kRounds; ++round)
    for (size_t set = 0; set < item.sets(); ++set) {
      const ReportRun want = item.run(set, eager, [&](const auto &args) { return program->call(args); }),
                      got = item.run(set, module, [&](const auto &args) { return fast.forward(args); });
      std::string d = differenceOfValues(want, got);
      if (d.empty() && (round == 0 || item.wantsGradients()))
        d = item.difference(set, got);
      if (!d.empty())
        return {"differs", fmt::format("round {}, set {}: {}", round, set, d)};
      if (!differenceIn("gradient", want.gradients, got.gradients).empty())
        row.kind = "close";
    }
  if (item.wantsGradients())
    row.note = noteOf(fast.explain());
  return row;
}

/// Each set alone at a later stage.
Row stageRow(const Settings &settings, const ReportCase &item) {
  for (size_t set = 0; set < item.sets(); ++set) {
    const Factory make = [&] {
      return Instance{graphopt::capture::torchScriptProgram(item.load()), item.arguments(set)};
    };
    LoweredOptions options;
    options.seed = item.seed(set);
    options.arguments = item.gradientArguments();
    options.gradients = item.wantsGradients();
    options.coreTolerance = settings.core ? 2e-5 : 0;
    const LoweredOutcome outcome = checkLowered(make, options);
    if (outcome.verdict != Outcome::Verdict::Equal)
      return {outcome.verdict == Outcome::Verdict::Refused ? "refused" : "differs",
              fmt::format("set {}: {}: {}", set, outcome.step, outcome.reason)};
  }
  return {};
}

/// What the list says of a case: "CASE WAY KIND reason" a line.
std::string expectedKind(const Settings &settings, const std::string &name) {
  std::ifstream in(settings.expected);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string item, way, kind;
    if (words >> item >> way >> kind && item == name && way == settings.way())
      return kind;
  }
  return "equal";
}

/// "NAME: passed KIND note", or "NAME: FAILED ...".
std::string lineOf(const Settings &settings, const std::string &name) {
  Row row;
  try {
    const ReportCase item(settings.selection.data(), name);
    row = settings.lowered || settings.core ? stageRow(settings, item) : compiledRow(item);
  } catch (const std::exception &error) {
    const std::string text = error.what();
    row = {"differs", text.substr(0, text.find('\n'))};
  }
  const std::string expected = expectedKind(settings, name);
  return fmt::format("{}: {} {}{}{}", name,
                     row.kind == expected ? "passed" : "FAILED, the list says " + expected + ":", row.kind,
                     row.note.empty() ? "" : ": ", row.note);
}

} // namespace

int main(int argc, char **argv) {
  Settings settings;
  CLI::App app("Cases from public bug reports through compile(), or at a later stage");
  settings.selection.add(app, "cases");
  auto *lowered = app.add_flag("--lowered", settings.lowered, "forward and backward at the lowered stage");
  app.add_flag("--core", settings.core, "forward and backward at the core stage")->excludes(lowered);
  app.add_option("--expected", settings.expected, "the cases that are not equal, each for a reason")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  if (auto status = parseArguments(app, argc, argv))
    return *status;
  at::set_num_threads(1);
  size_t passed = 0, failed = 0;
  for (const std::string &name : settings.selection.namesIn(settings.selection.data(), ".io.pt")) {
    const std::string line = inChild([&] { return lineOf(settings, name); }, 120);
    const bool isGood = line.starts_with(name + ": passed");
    ++(isGood ? passed : failed);
    fmt::print("{}{}\n", line.starts_with(name) ? "" : name + ": FAILED ", line);
    std::fflush(stdout); // children copy what is not written
  }
  std::printf("reports: %zu passed, %zu failed\n", passed, failed);
  return failed > 0 || passed == 0 ? 1 : 0;
}
