// graphopt bench: eager against the plan, one after the other in turn, so that both see the same machine.
#include "tools/command.h"
#include "tools/files.h"
#include "tools/session.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <memory>

namespace graphopt::tools {
namespace {

struct BenchOptions {
  ModelFlags model;
  PassFlags passes;
  int warmup = 3, iterations = 20;
  std::string json;
};

/// Milliseconds of one call, device work included.
double timeOf(const std::function<void()> &call, bool cuda) {
  const auto start = std::chrono::steady_clock::now();
  call();
  if (cuda)
    at::detail::getCUDAHooks().deviceSynchronize(-1);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  return took.count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct Times {
  double eager = 0, plan = 0;
  double ratio() const { return plan / eager; }
};

Times measure(const BenchOptions &options, const Instance &eager, const Session &session, bool cuda) {
  const auto runEager = [&] { eager.program->call(eager.args); };
  const auto runPlan = [&] { session.variant().run(session.instance().args); };
  std::vector<double> eagerTimes, planTimes;
  for (int i = -options.warmup; i < options.iterations; ++i) {
    const double eagerTime = timeOf(runEager, cuda), planTime = timeOf(runPlan, cuda);
    if (i < 0)
      continue;
    eagerTimes.push_back(eagerTime);
    planTimes.push_back(planTime);
  }
  return {median(eagerTimes), median(planTimes)};
}

bool isOnCuda(const at::Tensor &tensor) { return tensor.defined() && tensor.is_cuda(); }

/// Whether a call may leave work on the device when it returns.
bool usesCuda(const Instance &instance) {
  const auto args = instance.argumentTensors();
  const auto state = instance.state();
  return std::any_of(args.begin(), args.end(), isOnCuda) ||
         std::any_of(state.begin(), state.end(), [](const auto &named) { return isOnCuda(named.tensor); });
}

int runBench(const BenchOptions &options) {
  const GradScope grad(options.model);
  const Instance eager = options.model.make();
  const Session session(options.model.make(), options.model, options.passes);
  const Times times = measure(options, eager, session, usesCuda(eager));
  const char *baseline = options.model.isText() ? "interpreter" : "eager";
  writeText("-", fmt::format("{} {:.3f} ms, plan {:.3f} ms, ratio {:.3f} (medians of {})\n", baseline,
                             times.eager, times.plan, times.ratio(), options.iterations));
  if (!options.json.empty()) {
    const nlohmann::json json = {{"model", options.model.path()},      {"baseline", baseline},
                                 {"baseline_ms", times.eager},         {"plan_ms", times.plan},
                                 {"plan_per_baseline", times.ratio()}, {"iterations", options.iterations}};
    writeText(options.json, json.dump(2) + "\n");
  }
  return 0;
}

} // namespace

Run benchCommand(CLI::App &app) {
  auto options = std::make_shared<BenchOptions>();
  options->model.add(app);
  app.add_option("--warmup", options->warmup, "calls of each before the clock runs (3)")
      ->type_name("N")
      ->check(CLI::Range(0, 1000000));
  app.add_option("--iters", options->iterations, "measured calls of each (20)")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--json", options->json, "write the numbers as JSON")->type_name("FILE");
  options->passes.addPassesFlag(app);
  return [options] { return runBench(*options); };
}

} // namespace graphopt::tools
