// Recording a call against running it: bar H5a, at most 3 us an operator over eager.
//
//   build/release/bin/record-bench --benchmark_repetitions=20 --benchmark_report_aggregates_only=true
//
// Each benchmark also reports its time divided by the operators of a call, so that Eager and Record subtract.
#include "capture/capture.h"
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

/// The capture is taken down off the clock, as a first call keeps it.
void recordOnce(benchmark::State &state, ModuleCase &module) {
  std::optional<Capture> capture = record(*module.program, module.args);
  benchmark::DoNotOptimize(capture);
  state.PauseTiming();
  capture.reset();
  state.ResumeTiming();
}

void run(benchmark::State &state, ModuleCase module, bool recorded) {
  at::set_num_threads(1);
  size_t operators = record(*module.program, module.args).stats.operators;
  for (auto _ : state) {
    if (recorded)
      recordOnce(state, module);
    else
      benchmark::DoNotOptimize(module.program->call(module.args));
  }
  state.counters["operators"] = static_cast<double>(operators);
  state.counters["per_operator"] =
      benchmark::Counter(static_cast<double>(operators),
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

#define RECORD_BENCHMARK(NAME, MAKE)                                                                         \
  void NAME##Eager(benchmark::State &state) { run(state, MAKE, false); }                                     \
  void NAME##Record(benchmark::State &state) { run(state, MAKE, true); }                                     \
  BENCHMARK(NAME##Eager)->Unit(benchmark::kMicrosecond);                                                     \
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
