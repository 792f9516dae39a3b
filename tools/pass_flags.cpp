// Flags of the pass manager. Single flags (--cse --dce) keep their order by asking CLI11 for the parse order.
#include "tools/pass_flags.h"

#include "tools/files.h"

#include <graphopt/error.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <iostream>

namespace graphopt::tools {
namespace {

constexpr const char *kPassGroup = "Passes (in the order given)";
constexpr const char *kPrintGroup = "Printing";
constexpr const char *kCheckGroup = "Checking and measuring";

void append(passes::Pipeline &pipeline, const std::string &text) {
  for (passes::PipelineStep &step : passes::parsePipeline(text))
    pipeline.push_back(std::move(step));
}

std::string namedPipelinesText() {
  std::string text = "Named pipelines, for --pass-pipeline:";
  for (const passes::NamedPipeline &row : passes::namedPipelines())
    text += fmt::format("\n  {:<10} {} ({})", row.name, row.help, row.text);
  return text;
}

nlohmann::json toJson(const std::vector<passes::PassReport> &reports) {
  nlohmann::json rows = nlohmann::json::array();
  for (const passes::PassReport &report : reports)
    rows.push_back({{"pass", report.name},
                    {"milliseconds", report.milliseconds},
                    {"ops_before", report.opsBefore},
                    {"ops_after", report.opsAfter},
                    {"changed", report.changed},
                    {"skipped", report.skipped},
                    {"statistics", report.statistics}});
  return rows;
}

} // namespace

void PassFlags::addPipelineFlags(CLI::App &app) {
  app_ = &app;
  app.add_option("--pass-pipeline", pipeline_, "run this pipeline: 'functionalize,cse{max-ops=32},dce'")
      ->type_name("TEXT")
      ->group(kPassGroup);
  app.add_option("-O", level_, "run a named pipeline: -O0, -O1 or -O2")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"0", "1", "2"}))
      ->group(kPassGroup);
  for (const passes::PassRow &row : passes::passTable()) {
    const std::string help(row.help);
    app.add_flag(fmt::format("--{}", row.name), help)->group(row.hidden ? "" : kPassGroup);
  }
  app.footer(namedPipelinesText());
}

void PassFlags::addPassesFlag(CLI::App &app) {
  app_ = &app;
  app.add_option("--passes", pipeline_,
                 "run this pipeline instead of the usual one: 'functionalize,cse,dce' or O1")
      ->type_name("TEXT");
}

void PassFlags::addManagerFlags(CLI::App &app) {
  const auto flag = [&](const char *name, bool &target, const char *help, const char *group) {
    app.add_flag(name, target, help)->group(group);
  };
  const auto text = [&](const char *name, auto &target, const char *type, const char *help,
                        const char *group) {
    return app.add_option(name, target, help)->type_name(type)->group(group);
  };
  flag("--dump-pass-pipeline", dumpPipeline_, "print the pipeline as text, then run it", kPrintGroup);
  text("--print-ir-before", printBefore_, "PASS,...", "print the graph before these passes", kPrintGroup)
      ->delimiter(',')
      ->allow_extra_args(false);
  text("--print-ir-after", printAfter_, "PASS,...", "print the graph after these passes", kPrintGroup)
      ->delimiter(',')
      ->allow_extra_args(false);
  flag("--print-ir-after-all", printAfterAll_, "print the graph after every pass", kPrintGroup);
  app.add_flag("--print-changed{whole}", printChanged_,
               "print the graph after a pass that changed it; =diff: the lines")
      ->group(kPrintGroup);
  text("--dump-dir", dumpDir_, "DIR", "write one .gir a pass and graph here", kPrintGroup)
      ->envname("GRAPHOPT_DUMP_DIR");
  flag("--verify-each,!--no-verify-each", verifyEach_, "verify after every pass (on)", kCheckGroup);
  flag("--verify-roundtrip", verifyRoundtrip_,
       "print, parse and compare what is read and what each pass made", kCheckGroup);
  flag("--timing", timing_, "print the time of each pass", kCheckGroup);
  flag("--stats", statistics_, "print what the passes counted", kCheckGroup);
  text("--timing-json", timingJson_, "FILE", "write times and counts as JSON", kCheckGroup);
  bisect_ = text("--bisect-limit", bisectLimit_, "N", "run only the first N pass executions; -1: number them",
                 kCheckGroup);
  text("--reproducer", reproducer_, "FILE", "when a pass fails, write graph and pipeline here", kCheckGroup);
  text("--numerics", numerics_, "MODE", "eager: no pass changes rounding; free: they may", kCheckGroup)
      ->check(CLI::IsMember({"eager", "free"}));
}

passes::Pipeline PassFlags::pipeline() const {
  passes::Pipeline pipeline;
  if (!app_)
    return pipeline;
  for (const CLI::Option *option : app_->parse_order()) {
    const std::string name = option->get_single_name();
    if (name == "pass-pipeline" || name == "passes")
      append(pipeline, pipeline_);
    else if (name == "O")
      append(pipeline, "O" + level_);
    else if (passes::findPass(name))
      append(pipeline, name);
  }
  return pipeline;
}

passes::ManagerOptions PassFlags::managerOptions(const ir::OpCatalog *catalog) const {
  passes::ManagerOptions options;
  options.catalog = catalog;
  options.eagerNumerics = numerics_ == "eager";
  options.verifyEach = verifyEach_;
  options.verifyRoundtrip = verifyRoundtrip_;
  options.printBefore = printBefore_;
  options.printAfter = printAfter_;
  options.printAfterAll = printAfterAll_;
  if (printChanged_ != "" && printChanged_ != "whole" && printChanged_ != "diff")
    userError(fmt::format("--print-changed takes no value or diff, not '{}'", printChanged_));
  if (printChanged_ != "")
    options.printChanged = printChanged_ == "diff" ? passes::PrintChanged::Diff : passes::PrintChanged::Whole;
  options.dumpDir = dumpDir_;
  options.reproducer = reproducer_;
  options.log = &std::cerr;
  if (bisect_ && bisect_->count() != 0) {
    options.bisectLimit = bisectLimit_;
    options.listBisect = bisectLimit_ < 0;
  }
  return options;
}

void PassFlags::report(const std::vector<passes::PassReport> &reports) const {
  if (timing_)
    std::cerr << passes::timingTable(reports);
  if (statistics_)
    std::cerr << passes::statisticsTable(reports);
  if (!timingJson_.empty())
    writeText(timingJson_, toJson(reports).dump(2) + "\n");
}

} // namespace graphopt::tools
