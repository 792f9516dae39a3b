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

/// The network, and a cache that it writes at a position.
struct Decoder {
  std::function<at::Tensor(const at::Tensor &)> network = bench::transformerOn(6);
  at::Tensor cache = at::zeros({1, 64, 8});
  at::Tensor operator()(const at::Tensor &x, int64_t position) const {
    at::Tensor y = network(x);
    cache.narrow(1, position, 1).copy_(y.narrow(1, 0, 1));
    return y + cache.narrow(1, 0, position + 1).sum();
  }
};

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
    const bool isFew = way == Way::Known || way == Way::Eager;
    const at::Tensor &x = inputs[isFew ? call % 2 : call % inputs.size()];
    benchmark::DoNotOptimize(way == Way::Eager ? code(x) : fast(x));
    if (++call % inputs.size() == 0 && way == Way::Recorded) {
      state.PauseTiming();
      fast.reset();
      state.ResumeTiming();
    }
  }
}

/// A position that moves, or one that stays.
void decode(benchmark::State &state, bool isEager, bool moves) {
  at::set_num_threads(1);
  at::NoGradGuard noGrad;
  Decoder code;
  auto fast = compile(code);
  at::Tensor x = at::rand({1, 4, 8});
  for (int64_t position = 0; position < 4; ++position)
    fast(x, position);
  for (int64_t call = 0; auto _ : state) {
    const int64_t position = moves ? ++call % 64 : 2;
    benchmark::DoNotOptimize(isEager ? code(x, position) : fast(x, position));
  }
}

BENCHMARK_CAPTURE(decode, eager, true, true)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode, position_stays, false, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode, position_moves, false, true)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, eager, Way::Eager)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, known, Way::Known)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, derived, Way::Derived)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run, recorded, Way::Recorded)->Unit(benchmark::kMicrosecond);

} // namespace
} // namespace graphopt

BENCHMARK_MAIN();
