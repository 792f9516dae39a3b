// graphopt verify: two fresh copies of a model, one run eagerly, one recorded and then run through its plan;
// whatever a call can change must agree: results, arguments, parameters and buffers.
#include "tools/command.h"
#include "tools/files.h"
#include "tools/session.h"
#include "tools/verify_report.h"
#include "tools/verify_train.h"

#include <fmt/format.h>
#include <graphopt/error.h>

#include <iostream>
#include <memory>

namespace graphopt::tools {
namespace {

struct VerifyOptions {
  ModelFlags model;
  PassFlags passes;
  std::string tolerance = "exact", output = "-";
  bool gradients = false;
};

/// The results of the captured graph in f64, from the tensors as they are now; empty when it cannot be had,
/// and says why.
std::vector<at::Tensor> oracleResults(const Session &session) {
  const capture::Capture &recording = session.variant().capture();
  if (hasRandomOperators(recording.graph)) {
    std::cerr << "graphopt: note: no fp64 run: the program draws random numbers; values must be equal\n";
    return {};
  }
  runtime::InterpretOptions options;
  options.fp64 = true;
  try {
    const auto results = runtime::interpret(recording.graph, session.environment(), options);
    return tensorsOf(capture::unflatten(recording.output, results));
  } catch (const Error &error) {
    std::cerr << "graphopt: note: no fp64 run: " << error.what() << "; values must be equal\n";
    return {};
  }
}

/// Arguments, parameters and buffers: those that the calls wrote are shown, all are compared.
void compareState(Report &report, const Instance &eager, const Session &session) {
  compareAll(report, "arg", eager.argumentTensors(), session.instance().argumentTensors(), {}, false);
  const std::vector<capture::NamedTensor> want = eager.state(), got = session.instance().state();
  if (want.size() != got.size())
    return report.fail(fmt::format("state: {} tensors, eager has {}", got.size(), want.size()));
  for (size_t i = 0; i < want.size(); ++i)
    report.compare(want[i].name, want[i].tensor, got[i].tensor, {}, session.wrote(got[i].tensor));
}

int runVerify(const VerifyOptions &options) {
  if (options.gradients)
    return verifyTraining({options.model, options.tolerance == "bars", options.output});
  const GradScope grad(options.model);
  const uint64_t seed = options.model.seed();
  Report report(options.tolerance == "bars");
  const Instance eager = options.model.make();
  const Session session(options.model.make(), options.model, options.passes);
  if (session.recorded()) { // a program's recorded call is its first: eager makes it too, so that state goes
                            // on alike
    const std::vector<at::Tensor> first = tensorsOf(eager.call(seed));
    compareAll(report, "recorded", first, tensorsOf(*session.recorded()), {}, false);
  }
  const std::vector<at::Tensor> oracle =
      options.tolerance == "bars" ? oracleResults(session) : std::vector<at::Tensor>();
  const std::vector<at::Tensor> want = tensorsOf(eager.call(seed));
  const std::vector<at::Tensor> got = tensorsOf(session.run(seed));
  compareAll(report, "out", want, got, oracle, true);
  compareState(report, eager, session);
  writeText(options.output,
            report.finish(got.size() == 1 ? "1 output" : fmt::format("{} outputs", got.size())));
  return report.passed() ? 0 : 1;
}

} // namespace

Run verifyCommand(CLI::App &app) {
  auto options = std::make_shared<VerifyOptions>();
  options->model.add(app);
  app.add_flag(
      "--gradients", options->gradients,
      "training calls in shadow mode through compiled backwards: results, gradients of the sum of their "
      "squares, and state");
  app.add_option(
         "--tolerance", options->tolerance,
         "exact: bit for bit (the default); bars: results and gradients against an fp64 run, no further "
         "off than 1.25 times eager's error plus 2 ulp; written state stays exact")
      ->type_name("RULE")
      ->check(CLI::IsMember({"exact", "bars"}));
  app.add_option("-o", options->output, "write the report here instead of standard output")
      ->type_name("FILE");
  options->passes.addPassesFlag(app);
  options->passes.addManagerFlags(app);
  return [options] { return runVerify(*options); };
}

} // namespace graphopt::tools
