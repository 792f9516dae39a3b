// graphopt dump: a model's captured graph as text.
#include "tools/command.h"
#include "tools/const_files.h"
#include "tools/files.h"
#include "tools/lowering_flags.h"
#include "tools/model.h"
#include "tools/pass_flags.h"

#include "ir/print.h"
#include "runtime/catalog.h"

#include <fmt/format.h>

#include <memory>

namespace graphopt::tools {
namespace {

struct DumpOptions {
  ModelFlags model;
  PassFlags passes;
  LoweringFlags lowering;
  std::string to = "captured", form = "raw", output = "-";
  bool joint = false, dry = false;
};

/// Constants that the text names by hash go beside it.
void writeConsts(const capture::Capture &recording, const DumpOptions &options) {
  const bool hasFolder = options.output != "-" || !options.model.constsDir().empty();
  const std::string dir = constsDirOf(options.output, options.model.constsDir());
  size_t skipped = 0;
  for (const capture::Bound &bound : recording.bound) {
    if (!bound.value || bound.value->contentHash.empty())
      continue;
    if (hasFolder)
      writeConst(*bound.value, bound.get(), dir);
    else
      ++skipped;
  }
  if (skipped)
    fmt::print(stderr,
               "graphopt: note: {} constants are named by hash only: give --consts=DIR or -o to write them\n",
               skipped);
}

/// What was asked for, then the way down.
passes::Pipeline loweringPipeline(passes::Pipeline asked, const DumpOptions &options) {
  if (asked.empty())
    asked = passes::parsePipeline("autocast,functionalize,dce");
  std::string down = options.joint ? "lower{joint=on},drop-copies,dce" : "lower,drop-copies,dce";
  if (options.to == "core")
    down += ",core";
  for (passes::PipelineStep &step : passes::parsePipeline(down))
    asked.push_back(std::move(step));
  return asked;
}

int runDump(DumpOptions &options) {
  const GradScope grad(options.model);
  const Instance instance = options.model.make();
  const capture::Capture recording = instance.record(options.model.seed(), options.dry);
  ir::Graph graph = recording.graph.clone();
  passes::Pipeline pipeline = options.passes.pipeline();
  if (options.form == "functional" && pipeline.empty())
    pipeline = passes::parsePipeline("functionalize");
  if (options.to != "captured")
    pipeline = loweringPipeline(std::move(pipeline), options);
  passes::ManagerOptions manager = options.passes.managerOptions(&runtime::dispatcherCatalog());
  manager.pieces = &options.lowering.pieces();
  const auto reports = passes::runPipeline(graph, pipeline, manager);
  options.passes.report(reports);
  options.lowering.save();
  writeConsts(recording, options);
  writeText(options.output, ir::print(graph));
  return 0;
}

} // namespace

Run dumpCommand(CLI::App &app) {
  auto options = std::make_shared<DumpOptions>();
  options->model.add(app);
  app.add_option("--to", options->to, "the stage to stop at: captured, lowered, core")
      ->type_name("STAGE")
      ->check(CLI::IsMember({"captured", "lowered", "core"}));
  app.add_option("--form", options->form,
                 "raw: as recorded (the default); functional: writes in update regions")
      ->type_name("FORM")
      ->check(CLI::IsMember({"raw", "functional"}));
  app.add_flag("--joint", options->joint,
               "forward and backward in one lowered graph (with --grad, else nothing needs gradients)");
  app.add_flag("--dry", options->dry,
               "without kernels: nothing is computed; refused where the program decides by what would be");
  app.add_option("-o", options->output, "write here instead of standard output")->type_name("FILE");
  options->passes.addPassesFlag(app);
  options->passes.addManagerFlags(app);
  options->lowering.add(app);
  return [options] { return runDump(*options); };
}

} // namespace graphopt::tools
