// graphopt opt: .gir text in, passes, .gir text out. With --verify-diagnostics the output is a judgement
// instead: the errors of each part of the file against its `expected-error` remarks.
#include "tools/command.h"
#include "tools/expected.h"
#include "tools/files.h"
#include "tools/lowering_flags.h"
#include "tools/pass_flags.h"
#include "tools/split.h"

#include "ir/compare.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "runtime/catalog.h"

#include <graphopt/error.h>

#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <optional>

namespace graphopt::tools {
namespace {

struct OptOptions {
  std::string input = "-", output = "-";
  bool split = false, verifyDiagnostics = false, noCatalog = false, noVerify = false;
  PassFlags passes;
  LoweringFlags lowering;
};

/// One run over one file: what all parts share, and what they add up to.
struct OptRun {
  const OptOptions &options;
  const passes::Pipeline pipeline;
  passes::ManagerOptions manager;
  std::vector<passes::PassReport> reports;

  /// The text of one part after the passes, or nothing when the diagnostics got an error.
  std::optional<std::string> runPart(ir::Diagnostics &diagnostics);
};

/// Parsing what was printed must give an equal graph with the same names and the same text.
void checkRoundtrip(const ir::Graph &graph) {
  const std::string text = ir::print(graph);
  ir::Diagnostics diagnostics(graph.name, text);
  const auto again = ir::parseGraphs(diagnostics);
  GO_ASSERT(again && again->size() == 1, "printed text does not parse: " + diagnostics.render() + text);
  const std::string difference = ir::difference(graph, again->front(), {.names = true});
  GO_ASSERT(difference.empty(), "printing and parsing changed the graph: " + difference);
  GO_ASSERT(ir::print(again->front()) == text, "a second print differs from the first:\n" + text);
}

std::optional<std::string> OptRun::runPart(ir::Diagnostics &diagnostics) {
  std::optional<std::vector<ir::Graph>> graphs = ir::parseGraphs(diagnostics);
  if (!graphs || diagnostics.hasErrors())
    return std::nullopt;
  if (!options.noVerify)
    for (const ir::Graph &graph : *graphs)
      ir::verify(graph, diagnostics, manager.catalog);
  if (diagnostics.hasErrors())
    return std::nullopt;
  std::string text;
  for (ir::Graph &graph : *graphs) {
    if (options.passes.verifiesRoundtrip())
      checkRoundtrip(graph);
    for (passes::PassReport &report : passes::runPipeline(graph, pipeline, manager)) {
      manager.bisectStart += report.counted; // one limit for all graphs of the file
      reports.push_back(std::move(report));
    }
    text += (text.empty() ? "" : "\n") + ir::print(graph);
  }
  return text;
}

/// The part's errors must be the expected ones, no more and no fewer.
bool judgePart(OptRun &run, ir::Diagnostics &diagnostics) {
  try {
    run.runPart(diagnostics);
  } catch (const Error &error) {
    diagnostics.error({}, error.what());
  }
  const std::string complaint = checkExpected(diagnostics);
  std::cerr << complaint;
  return complaint.empty();
}

int runOpt(OptOptions &options) {
  const ir::OpCatalog *catalog = options.noCatalog ? nullptr : &runtime::dispatcherCatalog();
  OptRun run{options, options.passes.pipeline(), options.passes.managerOptions(catalog), {}};
  run.manager.pieces = &options.lowering.pieces();
  if (options.passes.dumpsPipeline())
    std::cerr << passes::toString(run.pipeline) << "\n";
  const std::string text = readText(options.input);
  const std::vector<std::string> parts = options.split ? splitText(text) : std::vector<std::string>{text};
  const std::string file = options.input == "-" ? "<stdin>" : options.input;
  std::string output;
  bool good = true;
  for (const std::string &part : parts) {
    ir::Diagnostics diagnostics(file, part);
    if (options.verifyDiagnostics) {
      good = judgePart(run, diagnostics) && good;
      continue;
    }
    const std::optional<std::string> result = run.runPart(diagnostics);
    std::cerr << diagnostics.render();
    good = good && result;
    output += (&part == &parts.front() ? "" : std::string(kSplitMark) + "\n") + result.value_or("");
  }
  options.passes.report(run.reports);
  options.lowering.save();
  if (!options.verifyDiagnostics)
    writeText(options.output, output);
  return good ? 0 : 1;
}

} // namespace

Run optCommand(CLI::App &app) {
  auto options = std::make_shared<OptOptions>();
  app.add_option("FILE", options->input, "a .gir file, or - for standard input (the default)");
  app.add_option("-o", options->output, "write here instead of standard output")->type_name("FILE");
  app.add_flag("--split-input-file", options->split,
               "treat the parts between '// -----' lines as files of their own");
  app.add_flag("--verify-diagnostics", options->verifyDiagnostics,
               "print no IR; compare errors with the 'expected-error' remarks in the file");
  app.add_flag("--no-catalog", options->noCatalog, "ask the dispatcher nothing: trust the marks in the text");
  app.add_flag("--no-verify", options->noVerify, "skip the verifier on what is read");
  options->passes.addPipelineFlags(app);
  options->passes.addManagerFlags(app);
  options->lowering.add(app);
  return [options] { return runOpt(*options); };
}

} // namespace graphopt::tools
