// Sizes that change: a call of known sizes, of sizes that have to be worked out, and of sizes that have to be
// recorded, beside eager. Tiny tensors: what differs is host time.
#include "bench/shadow_programs.h"

#include <graphopt/compile.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>

namespace graphopt {
namespace {

enum class Way { Eager, Known, Derived, Recorded };

void run(benchmark::State &state, Way way) {
  at::set_num_threads(1);
  at::NoGradGuard noGrad;
  auto code = bench::transformerOn(6);
  auto fast = compile(code, {.dynamic = way == Way::Recorded ? Dynamic::never : Dynamic::automatic,
                             .recompileLimit = size_t(1) << 30});
  std::vector<at::Tensor> inputs;
  for (int64_t length = 2; length < 66; ++length) // more than are kept
    inputs.push_back(at::rand({1, length, 8}));
  for (size_t i = 0; i < 3; ++i)
    fast(inputs[i]);
  const uint64_t operators = fast.explain().shadow.shadowedOperators;
  fast(inputs[0]);
  state.counters["ops"] = static_cast<double>(fast.explain().shadow.shadowedOperators - operators);
  for (size_t call = 0; auto _ : state) {
    const at::Tensor &x = inputs[way == Way::Known ? call % 2 : call % inputs.size()];
    benchmark::DoNotOptimize(way == Way::Eager ? code(x) : fast(x));
    if (++call % inputs.size() == 0 && way == Way::Recorded) {
      state.PauseTiming();
      fast.reset();
      state.ResumeTiming();
    }
  }
}

BENCHMARK_CAPTURE(run, eager, Way::Eager)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, known, Way::Known)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, derived, Way::Derived)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, recorded, Way::Recorded)->Unit(benchmark::kMicrosecond);

} // namespace
} // namespace graphopt

BENCHMARK_MAIN();
