// Recording a call against running it: bar H5a, at most 3 us an operator over eager.
//
//   build/release/bin/record-bench --benchmark_repetitions=20 --benchmark_report_aggregates_only=true
//
// Each benchmark also reports its time divided by the operators of a call, so that Eager and Record subtract.
#include "capture/capture.h"
#include "capture/handler.h"
#include "test/unit/capture/modules.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/jit/api/module.h>

namespace graphopt::capture {
namespace {

/// Ten kinds of cheap operators in a row, as often as asked.
ModuleCase chain(int64_t rounds) {
  auto call = [=](std::vector<c10::IValue> args) -> c10::IValue {
    at::Tensor x = args[0].toTensor();
    for (int64_t i = 0; i < rounds; ++i) {
      x = at::relu(x).add(x).mul(0.5).view({8, 4}).transpose(0, 1).t().reshape({4, 8});
      x = at::layer_norm(at::softmax(at::dropout(x, 0.1, false), -1), {8});
    }
    return x;
  };
  return {functionProgram("chain", call), {at::rand({4, 8})}};
}

ModuleCase script() {
  torch::jit::Module child("child");
  child.define("def forward(self, x):\n    return torch.sigmoid(torch.relu(x) * 0.5 + x)\n");
  torch::jit::Module parent("parent");
  std::string body = "def forward(self, x):\n";
  for (int i = 0; i < 25; ++i) {
    std::string name = "l" + std::to_string(i);
    parent.register_module(name, child);
    body += "    x = self." + name + ".forward(x)\n";
  }
  parent.define(body + "    return x\n");
  return {torchScriptProgram(parent), {at::rand({4, 8})}};
}

/// Freed memory is put in order when next a large block is asked for: now.
void settleFreedMemory() { benchmark::DoNotOptimize(std::make_unique<char[]>(size_t{1} << 16)); }

/// The capture is taken down off the clock, as a first call keeps it.
void recordOnce(benchmark::State &state, ModuleCase &module) {
  std::optional<Capture> capture = record(*module.program, module.args);
  benchmark::DoNotOptimize(capture);
  state.PauseTiming();
  capture.reset();
  settleFreedMemory();
  state.ResumeTiming();
}

/// As it is, but where another code ran before: as cold as the operators of a recorded call are.
void runCold(benchmark::State &state, ModuleCase &module) {
  state.PauseTiming();
  record(*module.program, module.args);
  settleFreedMemory();
  state.ResumeTiming();
  benchmark::DoNotOptimize(module.program->call(module.args));
}

/// Hands every operator on.
class Bystander final : public OperatorSink {
  void onCall(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) override {
    op.redispatchBoxed(keys, stack);
  }
};

void runIntercepted(ModuleCase &module) {
  Bystander bystander;
  SinkScope scope(bystander);
  benchmark::DoNotOptimize(module.program->call(module.args));
}

enum class Way { Eager, Cold, Intercepted, Record };

void run(benchmark::State &state, ModuleCase module, Way way) {
  at::set_num_threads(1);
  size_t operators = record(*module.program, module.args).stats.operators;
  for (auto _ : state) {
    if (way == Way::Record)
      recordOnce(state, module);
    else if (way == Way::Cold)
      runCold(state, module);
    else if (way == Way::Intercepted)
      runIntercepted(module);
    else
      benchmark::DoNotOptimize(module.program->call(module.args));
  }
  state.counters["operators"] = static_cast<double>(operators);
  state.counters["per_operator"] =
      benchmark::Counter(static_cast<double>(operators),
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

#define RECORD_BENCHMARK(NAME, MAKE)                                                                         \
  void NAME##Eager(benchmark::State &state) { run(state, MAKE, Way::Eager); }                                \
  void NAME##Cold(benchmark::State &state) { run(state, MAKE, Way::Cold); }                                  \
  void NAME##Intercepted(benchmark::State &state) { run(state, MAKE, Way::Intercepted); }                    \
  void NAME##Record(benchmark::State &state) { run(state, MAKE, Way::Record); }                              \
  BENCHMARK(NAME##Eager)->Unit(benchmark::kMicrosecond);                                                     \
  BENCHMARK(NAME##Cold)->Unit(benchmark::kMicrosecond);                                                      \
  BENCHMARK(NAME##Intercepted)->Unit(benchmark::kMicrosecond);                                               \
  BENCHMARK(NAME##Record)->Unit(benchmark::kMicrosecond)

RECORD_BENCHMARK(chain, chain(20));
RECORD_BENCHMARK(transformerBlock, transformerBlock());
RECORD_BENCHMARK(gruLoop, gruLoop(50));
RECORD_BENCHMARK(script, script());

void guards(benchmark::State &state) {
  at::set_num_threads(1);
  ModuleCase module = transformerBlock();
  Capture capture = record(*module.program, module.args);
  for (auto _ : state)
    benchmark::DoNotOptimize(checkGuards(capture, module.args));
  state.counters["guards"] = static_cast<double>(capture.graph.guards.size());
}
BENCHMARK(guards)->Unit(benchmark::kMicrosecond);

} // namespace
} // namespace graphopt::capture

BENCHMARK_MAIN();
