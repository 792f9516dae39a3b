// graphopt verify: two fresh copies of a model, one run eagerly, one recorded and then run through its plan;
// whatever a call can change must agree: results, arguments, parameters and buffers.
#include "tools/command.h"
#include "tools/files.h"
#include "tools/session.h"

#include "driver/shadow.h"
#include "ir/effects.h"
#include "runtime/catalog.h"
#include "runtime/compare.h"

#include <ATen/ops/pow.h>
#include <ATen/ops/sum.h>
#include <graphopt/error.h>
#include <torch/csrc/autograd/autograd.h>

#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <optional>

namespace graphopt::tools {
namespace {

struct VerifyOptions {
  ModelFlags model;
  PassFlags passes;
  std::string tolerance = "exact", output = "-";
  bool train = false;
};

/// Rows of the report, and whether all of them passed.
class Report {
public:
  explicit Report(bool bars) : bars_(bars) {}

  /// Bit for bit, unless `oracle` is given: then the fp64 rule decides. Rows of equal tensors print when
  /// `always`.
  void compare(const std::string &name, const at::Tensor &eager, const at::Tensor &actual,
               const at::Tensor &oracle, bool always);
  void fail(const std::string &line) {
    text_ += line + "\n";
    ++misses_;
  }
  bool passed() const { return misses_ == 0; }
  std::string finish(const std::string &what) const {
    return text_ + (passed()
                        ? fmt::format("pass: {} {}\n", what, bars_ ? "within the bars" : "equal to eager")
                        : fmt::format("MISS: {} of the values above differ from eager\n", misses_));
  }

private:
  const bool bars_;
  std::string text_;
  int misses_ = 0;
};

/// What a result must share with eager's beside its values.
std::string layoutDifference(const at::Tensor &eager, const at::Tensor &actual) {
  if (eager.layout() != actual.layout())
    return "layout differs";
  const ir::Type want = capture::typeOf(eager), got = capture::typeOf(actual);
  return want == got ? "" : fmt::format("{}, eager gives {}", ir::toString(got), ir::toString(want));
}

void Report::compare(const std::string &name, const at::Tensor &eager, const at::Tensor &actual,
                     const at::Tensor &oracle, bool always) {
  if (!eager.defined() && !actual.defined())
    return;
  if (eager.defined() != actual.defined())
    return fail(
        fmt::format("{}: {}", name, eager.defined() ? "missing, eager gives a tensor" : "eager gives none"));
  if (const std::string layout = layoutDifference(eager, actual); !layout.empty())
    return fail(fmt::format("{}: {}", name, layout));
  const runtime::Difference difference = runtime::compare(eager, actual);
  std::string line = fmt::format("{}: {} max_abs={:.3g} max_rel={:.3g} max_ulp={:.3g}", name,
                                 ir::toString(capture::typeOf(actual)), difference.maxAbsolute,
                                 difference.maxRelative, difference.maxUlp);
  if (difference.bitEqual) {
    if (always)
      text_ += line + " equal\n";
    return;
  }
  line += fmt::format(" ({} elements)", difference.mismatches);
  if (!oracle.defined())
    return fail(line);
  const runtime::OracleVerdict verdict = runtime::compareWithOracle(oracle, eager, actual);
  line += fmt::format(" fp64: error {:.3g}, eager's {:.3g}", verdict.maxError, verdict.maxEager);
  if (!verdict.pass)
    return fail(line + ": " + verdict.reason);
  text_ += line + "\n";
}

bool hasRandomOperators(const ir::Graph &graph) {
  bool random = false;
  ir::walk(graph.body(),
           [&](ir::Op &op) { random |= ir::effectsOf(op, &runtime::dispatcherCatalog()).random; });
  return random;
}

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

std::vector<at::Tensor> tensorsOfState(const Instance &instance) {
  std::vector<at::Tensor> tensors;
  for (const capture::NamedTensor &named : instance.state())
    tensors.push_back(named.tensor.detach());
  return tensors;
}

void compareAll(Report &report, const std::string &name, const std::vector<at::Tensor> &eager,
                const std::vector<at::Tensor> &actual, const std::vector<at::Tensor> &oracle, bool always) {
  if (eager.size() != actual.size())
    return report.fail(fmt::format("{}: {} tensors, eager gives {}", name, actual.size(), eager.size()));
  for (size_t i = 0; i < eager.size(); ++i)
    report.compare(fmt::format("{}{}", name, i), eager[i], actual[i],
                   i < oracle.size() ? oracle[i] : at::Tensor(), always);
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

// ---- training

/// The gradients of parameters and floating arguments for a sum of squares of the results.
std::vector<at::Tensor> gradientsOf(const std::vector<at::Tensor> &results,
                                    const std::vector<at::Tensor> &leaves) {
  std::vector<at::Tensor> roots;
  for (const at::Tensor &result : results)
    if (result.defined() && result.requires_grad())
      roots.push_back(result.pow(2).sum());
  if (roots.empty())
    return std::vector<at::Tensor>(leaves.size());
  return torch::autograd::grad(roots, leaves, {}, std::nullopt, /*create_graph=*/false,
                               /*allow_unused=*/true);
}

std::vector<at::Tensor> leavesOf(Instance &instance, std::vector<std::string> &names) {
  std::vector<at::Tensor> leaves;
  names.clear();
  auto add = [&](const std::string &name, const at::Tensor &tensor) {
    if (tensor.defined() && tensor.is_floating_point() && tensor.is_leaf()) {
      leaves.push_back(tensor.requires_grad_());
      names.push_back("d." + name);
    }
  };
  for (size_t i = 0; i < instance.args.size(); ++i)
    if (instance.args[i].isTensor())
      add(fmt::format("arg{}", i), instance.args[i].toTensor());
  for (const capture::NamedTensor &named : instance.state())
    if (named.isParameter)
      add(named.name, named.tensor);
  return leaves;
}

/// Training calls in shadow mode, through compiled segments, beside the same calls run eagerly.
int runVerifyTrain(const VerifyOptions &options) {
  const c10::AutoGradMode grad(true);
  constexpr int kCalls = 4; // recorded, verified, observed, and the last is compiled
  Report report(false);
  Instance eager = options.model.make(), compiled = options.model.make();
  std::vector<std::string> names;
  const std::vector<at::Tensor> eagerLeaves = leavesOf(eager, names), leaves = leavesOf(compiled, names);
  driver::Shadow shadow({}, compiled.program->name());
  std::vector<at::Tensor> want, got;
  for (int call = 0; call < kCalls; ++call) {
    const std::vector<at::Tensor> wantResults = tensorsOf(eager.call(options.model.seed()));
    seedGenerators(options.model.seed());
    c10::IValue result;
    shadow.call(
        *compiled.program, [&] { result = compiled.program->call(compiled.args); },
        [&] { return compiled.args; });
    const std::vector<at::Tensor> gotResults = tensorsOf(result);
    want = gradientsOf(wantResults, eagerLeaves);
    got = gradientsOf(gotResults, leaves);
    if (call + 1 == kCalls)
      compareAll(report, "out", wantResults, gotResults, {}, true);
  }
  for (size_t i = 0; i < want.size(); ++i)
    report.compare(names[i], want[i], got[i], {}, true);
  compareAll(report, "state", tensorsOfState(eager), tensorsOfState(compiled), {}, false);
  Explanation explanation;
  shadow.explain(explanation);
  for (const auto &[reason, count] : explanation.notCompiled)
    fmt::print(stderr, "graphopt: note: through autograd's nodes: {} ({} times)\n", reason, count);
  writeText(options.output, report.finish(fmt::format("{} gradients ({} compiled runs)", want.size(),
                                                      explanation.compiledRuns)));
  return report.passed() ? 0 : 1;
}

int runVerify(const VerifyOptions &options) {
  if (options.train)
    return runVerifyTrain(options);
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
      "--gradients", options->train,
      "training calls in shadow mode through compiled backwards: results, gradients of the sum of their "
      "squares, and state");
  app.add_option("--tolerance", options->tolerance,
                 "exact: bit for bit (the default); bars: results against an fp64 run, no further off than "
                 "1.25 times "
                 "eager's error plus 2 ulp; written state stays exact")
      ->type_name("RULE")
      ->check(CLI::IsMember({"exact", "bars"}));
  app.add_option("-o", options->output, "write the report here instead of standard output")
      ->type_name("FILE");
  options->passes.addPassesFlag(app);
  options->passes.addManagerFlags(app);
  return [options] { return runVerify(*options); };
}

} // namespace graphopt::tools
