// graphopt residuals: what a training step keeps from the forward for the backward, how big it is, which
// module made it.
#include "tools/command.h"
#include "tools/files.h"
#include "tools/model.h"

#include "driver/lowering.h"
#include "ir/print.h"
#include "passes/manager.h"
#include "passes/partition.h"
#include "runtime/catalog.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace graphopt::tools {
namespace {

struct ResidualsOptions {
  ModelFlags model;
  bool keepAll = false, graphs = false;
  std::string output = "-";
};

std::string pipelineFor(const ir::Graph &captured) {
  const bool isRaw = captured.form == ir::Form::Raw;
  return std::string(isRaw ? "autocast,functionalize," : "") + "dce,lower{joint=on},lean";
}

passes::Partitioned partitionOf(const ResidualsOptions &options) {
  const c10::AutoGradMode grad(true);
  const Instance instance = options.model.make();
  ir::Graph graph = instance.record(options.model.seed()).graph.clone();
  driver::Lowering lowering(driver::pieceFolder());
  passes::ManagerOptions manager;
  manager.catalog = &runtime::dispatcherCatalog();
  manager.pieces = &lowering.pieces();
  if (graph.stage == ir::Stage::Captured) // else it is a joint graph, or partition says so
    passes::runPipeline(graph, passes::parsePipeline(pipelineFor(graph)), manager);
  return passes::partition(graph, manager.catalog, {.recompute = !options.keepAll});
}

std::string line(const passes::Residual &residual) {
  return fmt::format("{:>12}  {:<28} {:<32} %{}: {}\n",
                     residual.isDeclared ? "-" : std::to_string(residual.bytes),
                     residual.scope.empty() ? "-" : residual.scope, residual.source, residual.name,
                     ir::toString(residual.type));
}

std::string table(passes::Partitioned parts) {
  std::stable_sort(parts.residuals.begin(), parts.residuals.end(),
                   [](const passes::Residual &a, const passes::Residual &b) {
                     return a.isDeclared != b.isDeclared ? b.isDeclared : a.bytes > b.bytes;
                   });
  std::string text = fmt::format("{:>12}  {:<28} {:<32} {}\n", "bytes", "module", "made by", "value");
  for (const passes::Residual &residual : parts.residuals)
    text += line(residual);
  const auto kept =
      std::ranges::count_if(parts.residuals, [](const auto &residual) { return !residual.isDeclared; });
  return text + fmt::format("kept: {} values, {} bytes; {} more are held by others; {} operators run again\n",
                            kept, parts.bytes, parts.residuals.size() - static_cast<size_t>(kept),
                            parts.recomputed);
}

} // namespace

Run residualsCommand(CLI::App &app) {
  auto options = std::make_shared<ResidualsOptions>();
  options->model.add(app);
  app.add_flag("--keep-all", options->keepAll,
               "nothing runs again: every value that the backward reads is kept");
  app.add_flag("--graphs", options->graphs, "print the forward and the backward instead of the table");
  app.add_option("-o", options->output, "write here instead of standard output")->type_name("FILE");
  return [options] {
    passes::Partitioned parts = partitionOf(*options);
    writeText(options->output, options->graphs
                                   ? ir::print(parts.forward) + "\n// -----\n\n" + ir::print(parts.backward)
                                   : table(std::move(parts)));
    return 0;
  };
}

} // namespace graphopt::tools
