// Runs pipelines: every pass is wrapped alike in skip, time, run, verify, print.
#pragma once
#include "passes/pass.h"

#include <ostream>
#include <string>
#include <vector>

namespace graphopt::passes {

struct PipelineStep {
  const PassRow *pass = nullptr;
  PassOptions options;
};
using Pipeline = std::vector<PipelineStep>;

/// Parses "functionalize,canonicalize,cse{max-ops=32}" or a named pipeline ("O0", "O1", "cleanup"). Throws a
/// user error that names the unknown pass or option, or the broken order constraint and its reason.
Pipeline parsePipeline(std::string_view text);
/// The text that parsePipeline reads back to the same pipeline.
std::string toString(const Pipeline &pipeline);
/// Throws a user error when the pipeline breaks a row of order.def, with the row's reason.
void checkOrder(const Pipeline &pipeline);

enum class PrintChanged { Off, Whole, Diff };

struct ManagerOptions {
  const ir::OpCatalog *catalog = nullptr;
  ir::PieceSource *pieces = nullptr;
  bool eagerNumerics = true;
  bool verifyEach = true;
  bool verifyRoundtrip = false;         ///< print, parse, compare after each pass
  std::vector<std::string> printBefore; ///< pass names
  std::vector<std::string> printAfter;
  bool printAfterAll = false;
  PrintChanged printChanged = PrintChanged::Off;
  std::string dumpDir;         ///< one .gir a pass and graph when not empty
  int bisectLimit = -1;        ///< run only the first N pass executions; -1: all. Passes that change the
                               ///< stage or form always run and are not counted
  int bisectStart = 0;         ///< executions counted before, when several graphs share one limit
  bool listBisect = false;     ///< say each execution's number
  std::string reproducer;      ///< file to write graph, pipeline and RUN line to when a pass fails
  std::ostream *log = nullptr; ///< where prints go; nullptr: std::cerr
};

struct PassReport {
  std::string name;
  double milliseconds = 0;
  size_t opsBefore = 0, opsAfter = 0;
  bool changed = false;
  bool skipped = false; // bisect limit
  bool counted = false; // the bisect limit counts it
  std::map<std::string, int64_t> statistics;
};

/// Runs the pipeline on the graph. When a pass breaks the IR the Error names the pass and the rule and holds
/// the graph as it was before the pass; a reproducer is written if asked for.
std::vector<PassReport> runPipeline(ir::Graph &graph, const Pipeline &pipeline,
                                    const ManagerOptions &options = {});

/// Calls, updates and groups in the graph's body (what is inside an update or a group is not counted): "120
/// -> 98 ops".
size_t countOps(const ir::Graph &graph);

std::string timingTable(const std::vector<PassReport> &reports);
std::string statisticsTable(const std::vector<PassReport> &reports);

} // namespace graphopt::passes
