// Runs a pipeline. Every pass is wrapped alike: claim checked, skipped or numbered, timed, run, verified,
// printed.
//
// With verification on, a copy of the graph is kept while a pass runs: it is what the error shows and what
// the reproducer holds, so a broken pass can be run again on exactly the graph it broke.
#include "passes/manager.h"

#include "ir/compare.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "passes/listing.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <graphopt/error.h>
#include <iostream>

namespace graphopt::passes {
namespace {

bool names(const std::vector<std::string> &list, std::string_view pass) {
  return std::find(list.begin(), list.end(), pass) != list.end();
}

/// What is wrong with the graph, or nothing.
struct Fault {
  std::string rule;   // one line
  std::string detail; // all of it
};

std::optional<Fault> verifyFault(const ir::Graph &graph, const ir::OpCatalog *catalog) {
  ir::Diagnostics diagnostics(graph.file);
  if (ir::verify(graph, diagnostics, catalog))
    return std::nullopt;
  return Fault{diagnostics.all().front().message, diagnostics.render()};
}

std::optional<Fault> roundtripFault(const ir::Graph &graph) {
  const std::string text = ir::print(graph);
  ir::Diagnostics diagnostics("printed", text);
  const auto parsed = ir::parseGraphs(diagnostics);
  if (!parsed || parsed->size() != 1)
    return Fault{"printed text parses", diagnostics.render()};
  const std::string difference = ir::difference(graph, parsed->front(), {.names = true});
  if (!difference.empty())
    return Fault{"printed text parses to an equal graph", difference};
  if (const std::string again = ir::print(parsed->front()); again != text)
    return Fault{"printed text prints the same again", diffLines(text, again)};
  return std::nullopt;
}

class Runner {
public:
  Runner(ir::Graph &graph, const Pipeline &pipeline, const ManagerOptions &options)
      : graph_(graph), pipeline_(pipeline), options_(options), log_(options.log ? *options.log : std::cerr),
        executions_(options.bisectStart) {}

  std::vector<PassReport> run();

private:
  void checkInput();
  void runStep(const PipelineStep &step);
  bool isSkipped(const PipelineStep &step, PassReport &report);
  void runPass(const PipelineStep &step, PassReport &report);
  void check(const PipelineStep &step, const PassReport &report, const ir::Graph *before);
  void print(const PassReport &report, const std::string &textBefore);
  [[noreturn]] void blame(const PipelineStep &step, Error::Kind kind, const std::string &headline,
                          const std::string &detail, const ir::Graph *before);
  bool keepsCopy() const {
    return options_.verifyEach || options_.verifyRoundtrip || !options_.reproducer.empty();
  }

  ir::Graph &graph_;
  const Pipeline &pipeline_;
  const ManagerOptions &options_;
  std::ostream &log_;
  int executions_; // of passes that the bisect limit counts
  std::vector<PassReport> reports_;
};

std::vector<PassReport> Runner::run() {
  checkOrder(pipeline_);
  if (options_.verifyEach && !pipeline_.empty())
    checkInput();
  if (!options_.dumpDir.empty())
    dumpFile(options_.dumpDir, graph_.name, 0, "input", ir::print(graph_));
  for (const PipelineStep &step : pipeline_)
    runStep(step);
  return std::move(reports_);
}

/// A graph that comes broken is no pass's fault: the user's when he wrote it, graphopt's when a capture made
/// it.
void Runner::checkInput() {
  const auto fault = verifyFault(graph_, options_.catalog);
  if (!fault)
    return;
  const auto kind = graph_.file.empty() ? Error::Kind::Internal : Error::Kind::User;
  throw Error(kind, fmt::format("graph @{} is invalid before the first pass: {}\n{}", graph_.name,
                                fault->rule, fault->detail));
}

/// The bisect limit: true when the pass must not run. Passes that change stage or form are part of the road
/// and run.
bool Runner::isSkipped(const PipelineStep &step, PassReport &report) {
  const StageClaim &yields = step.pass->yields;
  report.counted = !yields.stage && !yields.form;
  if (!report.counted)
    return false;
  ++executions_;
  const bool skipped = options_.bisectLimit >= 0 && executions_ > options_.bisectLimit;
  if (options_.listBisect || options_.bisectLimit >= 0)
    log_ << fmt::format("bisect: {} {} '{}' on @{}\n", executions_, skipped ? "skips" : "runs", report.name,
                        graph_.name);
  return skipped;
}

void Runner::runStep(const PipelineStep &step) {
  const PassRow &row = *step.pass;
  PassReport report;
  report.name = row.name;
  if (!meets(graph_, row.needs))
    userError(fmt::format("pass '{}' needs a graph of {}, and @{} is {}: {}", row.name, toString(row.needs),
                          graph_.name, toString(StageClaim{graph_.stage, graph_.form}),
                          "put the pass that makes it before"));
  report.opsBefore = report.opsAfter = countOps(graph_);
  if (names(options_.printBefore, row.name))
    log_ << fmt::format("// before {}: {} ops\n{}", row.name, report.opsBefore, ir::print(graph_));
  const std::string textBefore = options_.printChanged == PrintChanged::Off ? "" : ir::print(graph_);
  report.skipped = isSkipped(step, report);
  if (!report.skipped) {
    std::optional<ir::Graph> before;
    if (keepsCopy())
      before = graph_.clone();
    try {
      runPass(step, report);
    } catch (const Error &error) {
      if (error.kind() == Error::Kind::User)
        throw;
      blame(step, error.kind(), fmt::format("pass '{}' failed: {}", row.name, error.what()), "",
            before ? &*before : nullptr);
    }
    check(step, report, before ? &*before : nullptr);
  }
  print(report, textBefore);
  reports_.push_back(std::move(report));
}

void Runner::runPass(const PipelineStep &step, PassReport &report) {
  PassContext context{options_.catalog, options_.pieces, options_.eagerNumerics, step.options, {}};
  const auto start = std::chrono::steady_clock::now();
  const Changed changed = step.pass->function(graph_, context);
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  report.milliseconds = taken.count();
  report.changed = changed == Changed::Yes;
  report.opsAfter = countOps(graph_);
  report.statistics = std::move(context.statistics);
}

/// The pass's claims and the graph it left.
void Runner::check(const PipelineStep &step, const PassReport &report, const ir::Graph *before) {
  auto broke = [&](const Fault &fault) {
    blame(step, Error::Kind::Internal, fmt::format("pass '{}' broke rule: {}", step.pass->name, fault.rule),
          fault.detail, before);
  };
  if (!meets(graph_, step.pass->yields))
    broke({fmt::format("its row promises {}", toString(step.pass->yields)), ""});
  if (options_.verifyEach) {
    if (const auto fault = verifyFault(graph_, options_.catalog))
      broke(*fault);
    if (before && !report.changed && ir::structuralHash(*before) != ir::structuralHash(graph_))
      broke({"a pass that reports no change leaves the graph alone", ir::difference(*before, graph_) + "\n"});
  }
  if (options_.verifyRoundtrip)
    if (const auto fault = roundtripFault(graph_))
      broke(*fault);
}

void Runner::blame(const PipelineStep &step, Error::Kind kind, const std::string &headline,
                   const std::string &detail, const ir::Graph *before) {
  std::string text = fmt::format("last pass broke graph @{}: {}\n{}", graph_.name, headline, detail);
  if (before) {
    const std::string textBefore = ir::print(*before);
    text += fmt::format("// before {}: {} ops\n{}", step.pass->name, countOps(*before), textBefore);
    if (!options_.reproducer.empty()) {
      writeFile(options_.reproducer, reproducerText(step, options_, headline, textBefore));
      text += fmt::format("reproducer written to {}\n", options_.reproducer);
    }
  }
  throw Error(kind, text);
}

void Runner::print(const PassReport &report, const std::string &textBefore) {
  const bool wanted = options_.printAfterAll || names(options_.printAfter, report.name);
  const bool dumped = !options_.dumpDir.empty();
  const bool watches = options_.printChanged != PrintChanged::Off;
  if (!wanted && !dumped && !watches)
    return;
  const std::string text = ir::print(graph_);
  if (wanted)
    log_ << heading(report) << text;
  if (watches && text == textBefore)
    log_ << fmt::format("// after {}: unchanged\n", report.name);
  else if (watches)
    log_ << heading(report)
         << (options_.printChanged == PrintChanged::Diff ? diffLines(textBefore, text) : text);
  if (dumped)
    dumpFile(options_.dumpDir, graph_.name, reports_.size() + 1, report.name, heading(report) + text);
}

} // namespace

std::vector<PassReport> runPipeline(ir::Graph &graph, const Pipeline &pipeline,
                                    const ManagerOptions &options) {
  return Runner(graph, pipeline, options).run();
}

size_t countOps(const ir::Graph &graph) {
  size_t count = 0;
  for (const auto &op : graph.body())
    count += op->computes();
  return count;
}

} // namespace graphopt::passes
