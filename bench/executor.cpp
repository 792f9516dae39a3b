// What a call costs beside its kernels: 200 small operators run by eager C++, by a plan's executor and by the
// interpreter. Time is per 200 operators, per_op is that of one.
#include "runtime/execute.h"
#include "runtime/interpret.h"

#include "ir/parse.h"

#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <c10/core/GradMode.h>

namespace {
using namespace graphopt;
using at::Tensor;

constexpr int kRounds = 40; // five operators each

/// The same program as text: tanh, mul, add with alpha, a view and its way back.
std::string programText(bool grad) {
  std::string text =
      "graph @small version=1 stage=captured form=functional device=cpu {\n  input %x: f32[4, 4]\n"
      "  param %w: f32[4, 4]\n";
  if (!grad)
    text += "  scope \"\" {grad=off}\n";
  std::string last = "%x";
  for (int i = 0; i < kRounds; ++i) {
    std::string n = std::to_string(i);
    text +=
        fmt::format("  %t{0}: f32[4, 4] = aten.tanh({1})\n  %m{0}: f32[4, 4] = aten.mul.Tensor(%t{0}, %w)\n"
                    "  %a{0}: f32[4, 4] = aten.add.Tensor(%m{0}, {1}) {{alpha=0.5}}\n"
                    "  %v{0}: f32[16] = aten.view(&%a{0}) {{size=[16]}}\n"
                    "  %b{0}: f32[4, 4] = aten.reshape(&%v{0}) {{shape=[4, 4]}}\n",
                    n, last);
    last = "%b" + n;
  }
  return text + "  return " + last + "\n}";
}

Tensor eager(const Tensor &x, const Tensor &w) {
  Tensor last = x;
  for (int i = 0; i < kRounds; ++i) {
    Tensor a = at::add(at::mul(at::tanh(last), w), last, 0.5);
    last = at::reshape(a.view({16}), {4, 4});
  }
  return last;
}

struct Inputs {
  Tensor x = at::randn({4, 4}), w;
  explicit Inputs(bool history) : w(at::randn({4, 4}).requires_grad_(history)) {}
};

void perOp(benchmark::State &state) {
  using benchmark::Counter;
  state.counters["per_op"] = Counter(kRounds * 5, Counter::kIsIterationInvariantRate | Counter::kInvert);
}

void runEager(benchmark::State &state, bool grad) {
  Inputs inputs(grad);
  c10::AutoGradMode mode(grad);
  for (auto _ : state)
    benchmark::DoNotOptimize(eager(inputs.x, inputs.w));
  perOp(state);
}

void runExecutor(benchmark::State &state, bool grad) {
  Inputs inputs(grad);
  runtime::Executor executor(runtime::buildPlan(ir::parseGraph(programText(grad))));
  for (auto _ : state)
    benchmark::DoNotOptimize(executor.run({inputs.x, inputs.w}));
  perOp(state);
}

void runInterpreter(benchmark::State &state, bool grad) {
  Inputs inputs(grad);
  ir::Graph graph = ir::parseGraph(programText(grad));
  for (auto _ : state)
    benchmark::DoNotOptimize(runtime::interpret(graph, {{"x", inputs.x}, {"w", inputs.w}}));
  perOp(state);
}

/// The fixed part of a run: nothing but a return.
void runEmpty(benchmark::State &state) {
  runtime::Executor executor(runtime::buildPlan(ir::parseGraph(
      "graph @empty version=1 stage=captured form=functional device=cpu {\n  input %x: f32[4]\n"
      "  return %x\n}")));
  std::vector<Tensor> inputs = {at::zeros({4})};
  for (auto _ : state)
    benchmark::DoNotOptimize(executor.run(inputs));
}

BENCHMARK_CAPTURE(runEager, noGrad, false);
BENCHMARK_CAPTURE(runExecutor, noGrad, false);
BENCHMARK_CAPTURE(runInterpreter, noGrad, false);
BENCHMARK_CAPTURE(runEager, grad, true);
BENCHMARK_CAPTURE(runExecutor, grad, true);
BENCHMARK(runEmpty);

} // namespace

int main(int argc, char **argv) {
  at::set_num_threads(1);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
