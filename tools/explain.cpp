// graphopt explain: what graphopt makes of a model, after two calls through the driver: one recorded, one
// replayed.
#include "tools/command.h"
#include "tools/files.h"
#include "tools/session.h"

#include "driver/compiled.h"
#include "runtime/catalog.h"

#include <graphopt/error.h>

#include <fmt/format.h>

#include <map>
#include <memory>

namespace graphopt::tools {
namespace {

struct ExplainOptions {
  ModelFlags model;
  std::string output = "-";
};

/// "12 aten.conv2d": operators by number, then by name.
std::string operatorCounts(const ir::Graph &graph) {
  std::map<std::string, int> counts;
  ir::walk(graph.body(), [&](ir::Op &op) {
    if (op.kind == ir::Op::Kind::Call)
      ++counts[op.name];
  });
  std::multimap<int, std::string, std::greater<>> byCount;
  for (const auto &[name, count] : counts)
    byCount.emplace(count, name);
  std::string text;
  for (const auto &[count, name] : byCount)
    text += fmt::format("{:6} {}\n", count, name);
  return text;
}

/// A text is its own recording: no call happens.
std::string explainGraph(const Instance &instance, const ExplainOptions &options) {
  driver::Variant variant(instance.record(options.model.seed()), {});
  if (variant.capture().stats.borders == 0 && variant.graph().stage == ir::Stage::Captured) {
    passes::ManagerOptions manager;
    manager.catalog = &runtime::dispatcherCatalog();
    variant.compile(passes::parsePipeline(driver::kPipeline), manager);
  }
  Explanation explanation{.name = instance.program->name(), .replay = "none (a text)"};
  explanation.variants.push_back(variant.describe());
  return explanation.text() + operatorCounts(variant.capture().graph);
}

/// One recorded call and one replayed call. A refusal is what there is to explain, not a failure of the
/// command.
std::string explainProgram(const Instance &instance, const ExplainOptions &options) {
  driver::CompiledCallable callable({.replay = Replay::trusted}, instance.program->name());
  try {
    for (int call = 0; call < 2; ++call) {
      seedGenerators(options.model.seed());
      callable.call(*instance.program, instance.args);
    }
  } catch (const Error &error) {
    if (callable.explain().refusal.empty())
      throw;
  }
  std::string text = callable.explain().text();
  for (const auto &variant : callable.variants())
    text += operatorCounts(variant->capture().graph);
  return text;
}

int runExplain(const ExplainOptions &options) {
  const GradScope grad(options.model);
  const Instance instance = options.model.make();
  writeText(options.output,
            options.model.isText() ? explainGraph(instance, options) : explainProgram(instance, options));
  return 0;
}

} // namespace

Run explainCommand(CLI::App &app) {
  auto options = std::make_shared<ExplainOptions>();
  options->model.add(app);
  app.add_option("-o", options->output, "write here instead of standard output")->type_name("FILE");
  return [options] { return runExplain(*options); };
}

} // namespace graphopt::tools
