// What a trusted call costs beside its plan: bar H4.
//
//   build/release/bin/trusted-bench --benchmark_repetitions=20 --benchmark_report_aggregates_only=true
//
// Each program is one operator over all its tensors. Call is a whole call through compile(); Plan is the
// executor alone, on the same tensors; Lookup is the guards. The bar is about Call minus Plan.
#include "capture/program.h"
#include "driver/compiled.h"

#include <graphopt/graphopt.h>

#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/nn/module.h>
#include <torch/types.h>

namespace graphopt {
namespace {

using at::Tensor;

/// A module with so many parameters, all of them read.
struct Many : torch::nn::Module {
  std::vector<Tensor> all;
  explicit Many(int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      all.push_back(register_parameter("p" + std::to_string(i), at::rand({2, 2})));
  }
  Tensor forward(const Tensor &x) {
    std::vector<Tensor> parts = all;
    parts.push_back(x);
    return at::cat(parts);
  }
};

Tensor eight(const Tensor &a, const Tensor &b, const Tensor &c, const Tensor &d, const Tensor &e,
             const Tensor &f, const Tensor &g, const Tensor &h) {
  return at::cat({a, b, c, d, e, f, g, h});
}

class ManyProgram final : public capture::Program {
public:
  explicit ManyProgram(std::shared_ptr<Many> model) : model_(std::move(model)) {}
  std::string name() const override { return "Many"; }
  c10::IValue call(std::vector<c10::IValue> args) override { return model_->forward(args.at(0).toTensor()); }
  std::vector<capture::NamedTensor> state() const override {
    std::vector<capture::NamedTensor> state;
    for (const auto &item : model_->named_parameters())
      state.push_back({item.key(), item.value(), true});
    return state;
  }

private:
  std::shared_ptr<Many> model_;
};

class EightProgram final : public capture::Program {
public:
  std::string name() const override { return "eight"; }
  c10::IValue call(std::vector<c10::IValue> args) override {
    std::vector<Tensor> tensors;
    for (const c10::IValue &arg : args)
      tensors.push_back(arg.toTensor());
    return at::cat(tensors);
  }
};

std::vector<c10::IValue> inputs(size_t count) {
  std::vector<c10::IValue> values;
  for (size_t i = 0; i < count; ++i)
    values.emplace_back(at::rand({2, 2}));
  return values;
}

/// `part`: 0 the guards, 1 the plan.
void runPart(benchmark::State &state, capture::Program &program, std::vector<c10::IValue> args) {
  at::set_num_threads(1);
  const at::NoGradGuard noGrad;
  driver::CompiledCallable callable({.replay = Replay::trusted}, "bench");
  for (int i = 0; i < 3; ++i)
    callable.call(program, args);
  const driver::Variant &variant = *callable.variants().at(0);
  const std::vector<Tensor> tensors = variant.inputs(args);
  for (auto _ : state)
    if (state.range(0) == 0)
      benchmark::DoNotOptimize(variant.check(args));
    else
      benchmark::DoNotOptimize(variant.runOn(tensors));
}

void parametersPart(benchmark::State &state) {
  ManyProgram program(std::make_shared<Many>(300));
  runPart(state, program, inputs(1));
}
void argumentsPart(benchmark::State &state) {
  EightProgram program;
  runPart(state, program, inputs(8));
}
BENCHMARK(parametersPart)->ArgName("plan")->Arg(0)->Arg(1);
BENCHMARK(argumentsPart)->ArgName("plan")->Arg(0)->Arg(1);

void parametersCall(benchmark::State &state) {
  at::set_num_threads(1);
  const at::NoGradGuard noGrad;
  auto fast = compile(std::make_shared<Many>(300), {.replay = Replay::trusted});
  const Tensor x = at::rand({2, 2});
  fast(x);
  for (auto _ : state)
    benchmark::DoNotOptimize(fast(x));
}
BENCHMARK(parametersCall);

void argumentsCall(benchmark::State &state) {
  at::set_num_threads(1);
  const at::NoGradGuard noGrad;
  auto fast = compile(eight, {.replay = Replay::trusted});
  const Tensor x[8] = {at::rand({2, 2}), at::rand({2, 2}), at::rand({2, 2}), at::rand({2, 2}),
                       at::rand({2, 2}), at::rand({2, 2}), at::rand({2, 2}), at::rand({2, 2})};
  auto call = [&] { return fast(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]); };
  call();
  for (auto _ : state)
    benchmark::DoNotOptimize(call());
}
BENCHMARK(argumentsCall);

} // namespace
} // namespace graphopt

BENCHMARK_MAIN();
