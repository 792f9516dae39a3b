// The steps of pipeline_check.h.
#include "pipeline_check.h"

#include "comparison.h"
#include "operator_log.h"

#include "ir/compare.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "passes/manager.h"
#include "runtime/catalog.h"
#include "runtime/content.h"
#include "runtime/execute.h"
#include "runtime/interpret.h"

#include <c10/core/GradMode.h>
#include <chrono>
#include <graphopt/error.h>
#include <numeric>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace graphopt::corpus {

namespace {

using at::Tensor;
using capture::Capture;

double now() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Everything a call can change: its results, its arguments, its state.
struct Seen {
  std::vector<Tensor> results, args, state;
  std::vector<bool> needGrad; // results, then arguments
};

Seen snapshot(const std::vector<Tensor> &results, const Instance &instance) {
  Seen seen;
  auto copy = [](const Tensor &t) {
    // clone() would densify strides, and strides are part of what is compared; keep the tensor itself.
    return t.defined() ? t.detach() : t;
  };
  for (const Tensor &t : results)
    seen.results.push_back(copy(t));
  std::vector<Tensor> args = leavesOf(instance.args);
  for (const Tensor &t : args)
    seen.args.push_back(copy(t));
  for (const std::vector<Tensor> &group : {results, args})
    for (const Tensor &t : group)
      seen.needGrad.push_back(t.defined() && t.requires_grad());
  for (const capture::NamedTensor &named : instance.program->state())
    seen.state.push_back(copy(named.tensor));
  return seen;
}

std::string difference(const Seen &want, const Seen &got, bool shapeOnly) {
  std::string d = differenceIn("result", want.results, got.results, shapeOnly);
  if (d.empty())
    d = differenceIn("argument", want.args, got.args, shapeOnly);
  if (d.empty())
    d = differenceIn("state tensor", want.state, got.state, shapeOnly);
  return d.empty() && want.needGrad != got.needGrad ? "requires_grad differs" : d;
}

/// The state of one check: which step runs, and what eager gave.
class Check {
public:
  Check(const Factory &make, const CheckOptions &options) : make_(make), options_(options) {}

  Outcome run() {
    try {
      steps();
    } catch (const Error &error) {
      bool user = error.kind() == Error::Kind::User;
      fail(user ? Outcome::Verdict::Refused : Outcome::Verdict::Wrong, error.what());
    } catch (const std::exception &error) {
      bool isInvalid = eager_.results.empty() && options_.arguments == Arguments::ReversedParameters;
      fail(isInvalid ? Outcome::Verdict::Invalid : Outcome::Verdict::Wrong, error.what());
    }
    return outcome_;
  }

private:
  void fail(Outcome::Verdict verdict, const std::string &why) {
    outcome_.verdict = verdict;
    outcome_.step = step_;
    std::string line = why.substr(0, why.find('\n'));
    outcome_.reason = line.substr(0, 300);
  }

  bool agree(const Seen &got) {
    std::string d = difference(eager_, got, options_.shapeOnly);
    if (!d.empty())
      fail(Outcome::Verdict::Wrong, d);
    return d.empty();
  }

  void steps() {
    c10::NoGradGuard noGrad;
    runEagerly();
    if (!recordIt())
      return;
    if (!isOfParameters() && !(roundTrip(capture_->graph) && interpretIt(capture_->graph, "interpret raw")))
      return;
    step_ = "passes";
    ir::Graph graph = capture_->graph.clone();
    passes::ManagerOptions manager;
    manager.catalog = &runtime::dispatcherCatalog();
    passes::runPipeline(graph, passes::parsePipeline(options_.pipeline), manager);
    outcome_.cleaned = graph.body().size();
    if (!isOfParameters() && !(roundTrip(graph) && interpretIt(graph, "interpret functional")))
      return;
    execute(graph);
  }

  bool isOfParameters() const { return options_.arguments != Arguments::Given; }

  Instance make() const {
    Instance instance = make_();
    if (isOfParameters())
      for (c10::IValue &arg : instance.args)
        if (arg.isTensor() && (arg.toTensor().is_floating_point() || arg.toTensor().is_complex()))
          arg = asParameter(arg.toTensor());
    return instance;
  }

  Tensor asParameter(const Tensor &given) const {
    if (options_.arguments != Arguments::ReversedParameters)
      return given.requires_grad_();
    std::vector<int64_t> order(static_cast<size_t>(given.dim()));
    std::iota(order.rbegin(), order.rend(), 0);
    Tensor layout = given.permute(order).contiguous().permute(order);
    // A leaf with its own memory: a view of a tensor without gradients would hand that on to its views.
    return at::empty_strided(layout.sizes(), layout.strides(), layout.options())
        .copy_(given)
        .requires_grad_();
  }

  void runEagerly() {
    step_ = "eager";
    Instance instance = make();
    seedAll(options_.seed);
    double start = now();
    c10::IValue result = instance.program->call(instance.args);
    outcome_.eagerMs = now() - start;
    eager_ = snapshot(leavesOf({result}), instance);
    keep_.push_back(std::move(instance));
  }

  bool recordIt() {
    step_ = "record";
    Instance instance = make();
    seedAll(options_.seed);
    double start = now();
    capture_ = capture::record(*instance.program, instance.args);
    outcome_.recordMs = now() - start;
    outcome_.captured = capture_->graph.body().size();
    outcome_.guards = capture_->graph.guards.size();
    outcome_.borders = capture_->stats.borders;
    outcome_.followed = capture_->stats.followedReads;
    ir::verifyOrThrow(capture_->graph, &runtime::dispatcherCatalog());
    Seen seen = snapshot(leavesOf({capture_->result}), instance);
    keep_.push_back(std::move(instance));
    return agree(seen);
  }

  bool roundTrip(const ir::Graph &graph) {
    step_ = "round trip";
    std::string text = ir::print(graph);
    ir::Graph again = ir::parseGraph(text);
    std::string d = ir::difference(graph, again, {.names = true});
    if (d.empty() && ir::print(again) != text)
      d = "a second print differs";
    if (!d.empty())
      fail(Outcome::Verdict::Wrong, d);
    return d.empty();
  }

  bool interpretIt(const ir::Graph &graph, const char *step) {
    step_ = step;
    Instance instance = make();
    seedAll(options_.seed);
    auto outputs = runtime::interpret(graph, environmentOf(*capture_, instance));
    bool good = agree(snapshot(resultLeaves(*capture_, outputs), instance));
    keep_.push_back(std::move(instance));
    return good;
  }

  bool execute(const ir::Graph &graph) {
    step_ = "plan";
    if (outcome_.borders)
      return true; // a plan ends at a border; the interpreter above has covered the operators
    runtime::Executor executor(runtime::buildPlan(graph));
    Instance instance = make();
    runtime::Environment environment = environmentOf(*capture_, instance);
    std::vector<Tensor> inputs;
    for (const runtime::PlanInput &input : executor.plan().inputs)
      inputs.push_back(environment.at(input.name));
    seedAll(options_.seed);
    std::vector<Tensor> outputs;
    auto taken = operatorsOf([&] { outputs = executor.run(inputs); });
    if (!agree(snapshot(resultLeaves(*capture_, outputs), instance)))
      return false;
    return !isOfParameters() || takesTheSameOperators(graph, taken);
  }

  /// Equal bits on small tensors may be luck: below autograd an operator could also take another way down.
  /// The interpreter leaves no layer out.
  bool takesTheSameOperators(const ir::Graph &graph, const std::vector<std::string> &taken) {
    Instance instance = make();
    runtime::Environment environment = environmentOf(*capture_, instance);
    for (const ir::Value *value : graph.declarations()) // a plan has its constants ready
      if (!value->content.isNone() && !environment.contains(value->name))
        environment[value->name] = runtime::tensorFromContent(value->type, value->content);
    seedAll(options_.seed);
    auto wanted = operatorsOf([&] { runtime::interpret(graph, environment); });
    std::string d = firstDifference(wanted, taken);
    if (!d.empty())
      fail(Outcome::Verdict::Wrong, d);
    return d.empty();
  }

  const Factory &make_;
  const CheckOptions &options_;
  const char *step_ = "";
  Outcome outcome_;
  Seen eager_;
  std::optional<Capture> capture_;
  std::vector<Instance> keep_; // results may alias arguments and state
};

} // namespace

const char *toString(Outcome::Verdict verdict) {
  switch (verdict) {
  case Outcome::Verdict::Equal:
    return "equal";
  case Outcome::Verdict::Refused:
    return "refused";
  case Outcome::Verdict::Wrong:
    return "WRONG";
  case Outcome::Verdict::Invalid:
    return "invalid";
  }
  return "";
}

runtime::Environment environmentOf(const Capture &capture, const Instance &instance) {
  runtime::Environment environment;
  for (const capture::Bound &bound : capture.bound)
    if (bound.value)
      environment[bound.value->name] = bound.get();
  for (const capture::NamedTensor &named : instance.program->state())
    if (environment.contains(named.name))
      environment[named.name] = named.tensor;
  std::vector<Tensor> leaves = leavesOf(instance.args);
  for (size_t i = 0; i < leaves.size(); ++i)
    if (ir::Value *value = capture.inputs.at(i))
      environment[value->name] = leaves[i];
  return environment;
}

std::vector<Tensor> resultLeaves(const Capture &capture, const std::vector<Tensor> &outputs) {
  std::vector<Tensor> leaves;
  capture::flatten(capture::unflatten(capture.output, outputs), leaves);
  return leaves;
}

Outcome check(const Factory &make, const CheckOptions &options) { return Check(make, options).run(); }

std::string inChild(const std::function<std::string()> &work, int timeoutSeconds) {
  int ends[2];
  if (pipe(ends) != 0)
    return "CRASH no pipe";
  pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    std::string line = work();
    size_t sent = 0;
    while (sent < line.size()) {
      ssize_t n = write(ends[1], line.data() + sent, line.size() - sent);
      if (n <= 0)
        break;
      sent += static_cast<size_t>(n);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  double end = now() + timeoutSeconds * 1000.0;
  pollfd waiting{ends[0], POLLIN, 0};
  bool timeout = false;
  while (true) {
    int left = static_cast<int>(end - now());
    if (left <= 0 || poll(&waiting, 1, left) <= 0) {
      timeout = true;
      break;
    }
    ssize_t n = read(ends[0], buffer, sizeof buffer);
    if (n <= 0)
      break;
    text.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  if (timeout)
    kill(pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  if (timeout)
    return text + "TIMEOUT";
  if (WIFSIGNALED(status))
    return text + fmt::format("CRASH signal {}", WTERMSIG(status));
  return text;
}

} // namespace graphopt::corpus
