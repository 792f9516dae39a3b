// graphopt explain: what graphopt makes of a model, after a few calls through the driver.
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
  std::string replay = "shadow";
  int calls = 3;
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

std::string explainShadow(const Instance &instance, const ExplainOptions &options) {
  driver::CompiledCallable callable({}, instance.program->name());
  c10::IValue result;
  for (int call = 0; call < options.calls; ++call) {
    seedGenerators(options.model.seed());
    callable.shadow(
        *instance.program, [&] { result = instance.program->call(instance.args); },
        [&] { return instance.args; });
  }
  const Explanation explanation = callable.explain();
  std::string text = explanation.text();
  for (const SegmentInfo &segment : explanation.segments)
    text += "\n" + segment.graph;
  return text;
}

/// Trusted replay, audited or not: recorded once. A refusal is what there is to explain, not a failure of the
/// command.
std::string explainTrusted(const Instance &instance, const ExplainOptions &options) {
  const Replay replay = options.replay == "audit" ? Replay::audit : Replay::trusted;
  driver::CompiledCallable callable({.replay = replay, .auditEvery = 2}, instance.program->name());
  try {
    for (int call = 0; call < options.calls; ++call) {
      seedGenerators(options.model.seed());
      callable.call(*instance.program, instance.args); // goes on in shadow when an audit has failed
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
  const auto explain = options.model.isText()       ? explainGraph
                       : options.replay == "shadow" ? explainShadow
                                                    : explainTrusted;
  writeText(options.output, explain(instance, options));
  return 0;
}

} // namespace

Run explainCommand(CLI::App &app) {
  auto options = std::make_shared<ExplainOptions>();
  options->model.add(app);
  app.add_option("--replay", options->replay,
                 "how calls after the first run: shadow, audit (every second call) or trusted")
      ->check(CLI::IsMember({"shadow", "audit", "trusted"}))
      ->capture_default_str();
  app.add_option("--calls", options->calls, "calls to make")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("-o", options->output, "write here instead of standard output")->type_name("FILE");
  return [options] { return runExplain(*options); };
}

} // namespace graphopt::tools
