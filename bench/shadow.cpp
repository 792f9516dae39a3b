// What shadowing costs: bars H1-H3; and recording, bar H5a.
//
//   build/release/bin/shadow-bench --benchmark_repetitions=20 --benchmark_report_aggregates_only=true
//
// Each program runs four ways: as it is (Eager); against kernels that answer with tensors made before and
// look at nothing (Constant), which is what the host code itself costs; in a frame whose segments are not run
// (Shadow); and in a new frame that records it (Record). An operator's shadow cost is the difference of the
// last two, by the number of operators.
#include "bench/constant_kernels.h"
#include "bench/shadow_programs.h"
#include "capture/frame.h"
#include "capture/program.h"

#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/nn/modules/container/any.h>

namespace graphopt::capture {
namespace {

/// Gives results that were computed before.
class DryHost final : public FrameHost {
public:
  bool isDry = false;
  void run(const SegmentRun &run) override {
    std::vector<at::Tensor> &all = canned_[run.node.get()];
    all.resize(run.node->segment.values.size());
    for (size_t id = 1; id < run.wanted.size(); ++id)
      if (run.wanted[id]) {
        at::Tensor &canned = all[id];
        if (!canned.defined())
          canned = at::zeros(run.node->segment.values[id].metadata.sizes);
        run.take(static_cast<ValueId>(id), canned);
      }
  }
  SegmentRecorder::Name nameOf(const at::Tensor &) override { return {"w", true, false}; }
  std::string currentModule() override { return ""; }
  bool allowsRecording(const std::string &) override { return true; }
  void onBorder(const std::string &reason) override { lastBorder = reason; }
  void onDivergence(const SegmentPtr &, size_t, const std::string &reason) override {
    ++divergences;
    if (lastDivergence.empty())
      lastDivergence = reason + ", after the border " + lastBorder;
  }
  void onRecorded(const std::vector<SegmentPtr> &, const std::string &) override {}
  void onUnknownShape(const std::string &) override {}
  void onOverLimit(const std::string &) override {}
  int divergences = 0;
  std::string lastDivergence, lastBorder;

private:
  std::unordered_map<const void *, std::vector<at::Tensor>> canned_; // by value
};

class Shadowed {
public:
  Shadowed() : graph_(8), frame_(graph_, host_) {}
  template <class F> void operator()(const F &code) {
    SinkScope sink(frame_);
    frame_.begin();
    {
      auto result = code();
      frame_.finish();
      benchmark::DoNotOptimize(result);
    }
  }
  /// Until its paths are known.
  template <class F> void warmUp(const F &code) {
    for (int i = 0; i < 4; ++i)
      (*this)(code);
    host_.divergences = 0;
  }
  size_t operators() const {
    size_t count = 0;
    for (const SegmentPtr &node : graph_.segments())
      count += node->segment.size();
    return count;
  }
  /// Fails the benchmark when calls did not keep to one path.
  void check(benchmark::State &state) const {
    if (host_.divergences)
      state.SkipWithError(("the program diverges: " + host_.lastDivergence).c_str());
  }

private:
  DryHost host_;
  TraceGraph graph_;
  Frame frame_;
};

void report(benchmark::State &state, size_t operators) {
  state.counters["operators"] = static_cast<double>(operators);
  state.counters["per_operator"] =
      benchmark::Counter(static_cast<double>(operators),
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// A first call. What it recorded is taken down off the clock, as no call does that; freed memory is put in
/// order when next a large block is asked for, so one is.
void recordOnce(benchmark::State &state, const std::function<at::Tensor()> &code) {
  auto fresh = std::make_unique<Shadowed>();
  (*fresh)(code);
  state.PauseTiming();
  fresh.reset();
  benchmark::DoNotOptimize(std::make_unique<char[]>(size_t{1} << 16));
  state.ResumeTiming();
}

enum class Way { Eager, Constant, Shadow, Record };

void run(benchmark::State &state, const std::function<at::Tensor()> &code, Way way, bool grad) {
  at::set_num_threads(1);
  at::AutoGradMode mode(grad);
  Shadowed shadowed;
  shadowed.warmUp(code);
  bench::ConstantAnswers answers;
  if (way == Way::Constant)
    answers.record(code);
  for (auto _ : state) {
    if (way == Way::Eager)
      benchmark::DoNotOptimize(code());
    else if (way == Way::Constant)
      answers.replay(code);
    else if (way == Way::Record)
      recordOnce(state, code);
    else
      shadowed(code);
  }
  shadowed.check(state);
  report(state, shadowed.operators());
}

#define SHADOW_BENCHMARK(NAME, MAKE)                                                                         \
  void NAME##Eager(benchmark::State &state) { run(state, MAKE, Way::Eager, state.range(0)); }                \
  void NAME##Constant(benchmark::State &state) { run(state, MAKE, Way::Constant, state.range(0)); }          \
  void NAME##Shadow(benchmark::State &state) { run(state, MAKE, Way::Shadow, state.range(0)); }              \
  void NAME##Record(benchmark::State &state) { run(state, MAKE, Way::Record, state.range(0)); }              \
  BENCHMARK(NAME##Record)->ArgName("grad")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);                   \
  BENCHMARK(NAME##Eager)->ArgName("grad")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);                    \
  BENCHMARK(NAME##Constant)->ArgName("grad")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);                 \
  BENCHMARK(NAME##Shadow)->ArgName("grad")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond)

SHADOW_BENCHMARK(chain, bench::chain(10));
SHADOW_BENCHMARK(sequential, bench::sequential(50));
SHADOW_BENCHMARK(transformer, bench::transformer(6));
SHADOW_BENCHMARK(resnet, bench::resnet(16));
SHADOW_BENCHMARK(script, bench::script(25));

/// H3: a call of one operator; `escapes` results held; `borders` host reads.
void fixed(benchmark::State &state) {
  at::set_num_threads(1);
  at::NoGradGuard noGrad;
  at::Tensor x = at::rand({4});
  Shadowed shadowed;
  auto code = [&] {
    std::vector<at::Tensor> held;
    for (int64_t i = 0; i < state.range(0); ++i)
      held.push_back(x.relu());
    for (int64_t i = 0; i < state.range(1); ++i)
      benchmark::DoNotOptimize(x.relu().const_data_ptr());
    return held;
  };
  shadowed.warmUp(code);
  for (auto _ : state)
    shadowed(code);
  shadowed.check(state);
}
BENCHMARK(fixed)
    ->ArgNames({"escapes", "borders"})
    ->Args({0, 0})
    ->Args({1, 0})
    ->Args({101, 0})
    ->Args({1, 100});

} // namespace
} // namespace graphopt::capture

BENCHMARK_MAIN();
