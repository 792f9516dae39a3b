// What can be compiled: modules, holders, callables, TorchScript; and that results are eager's bit for bit.
#include "models.h"

#include <gtest/gtest.h>
#include <torch/script.h>

namespace graphopt::testing_api {
namespace {

using torch::Tensor;

TEST(Compile, ModuleHolder) {
  torch::NoGradGuard noGrad;
  Mlp model;
  auto fast = compile(model, kTrusted);
  for (int i = 0; i < 3; ++i) {
    Tensor x = torch::randn({3, 8});
    EXPECT_TRUE(torch::equal(fast(x), model(x)));
  }
  EXPECT_EQ(model->calls, 4); // three by the test, one recorded
  EXPECT_EQ(fast.explain().counters.hits, 2u);
  EXPECT_EQ(fast.explain().counters.captures, 1u);
}

TEST(Compile, SharedPointerToModule) {
  torch::NoGradGuard noGrad;
  auto model = std::make_shared<MlpImpl>();
  auto fast = compile(model, kTrusted);
  Tensor x = torch::randn({3, 8});
  fast(x);
  EXPECT_TRUE(torch::equal(fast(x), model->forward(x)));
  EXPECT_EQ(fast->parameters().size(), 4u); // the module stays in reach
}

TEST(Compile, SequentialHasATemplatedForward) {
  torch::NoGradGuard noGrad;
  torch::nn::Sequential model(torch::nn::Linear(8, 4), torch::nn::ReLU());
  auto fast = compile(model, kTrusted);
  Tensor x = torch::randn({2, 8});
  fast(x);
  EXPECT_TRUE(torch::equal(fast(x), model->forward(x)));
}

TEST(Compile, LambdaBindsOutsideTensors) {
  torch::NoGradGuard noGrad;
  Tensor weight = torch::randn({8, 8});
  auto fast = compile([weight](const Tensor &x) { return x.matmul(weight); }, kTrusted);
  Tensor x = torch::randn({2, 8});
  fast(x);
  weight.mul_(2); // read again at each call
  EXPECT_TRUE(torch::equal(fast(x), x.matmul(weight)));
  EXPECT_EQ(fast.explain().counters.hits, 1u);
}

TEST(Compile, ResultsOfManyShapes) {
  torch::NoGradGuard noGrad;
  auto program = [](const Tensor &x, std::optional<Tensor> y) {
    return std::tuple<Tensor, std::vector<Tensor>, int64_t, std::optional<Tensor>>(
        x + 1, {x * 2, x.t()}, x.dim(), y ? std::optional<Tensor>(*y - 1) : std::nullopt);
  };
  auto fast = compile(program, kTrusted);
  Tensor x = torch::randn({2, 3});
  fast(x, std::optional<Tensor>());
  auto [a, list, rank, none] = fast(x, std::optional<Tensor>());
  EXPECT_TRUE(torch::equal(a, x + 1));
  EXPECT_TRUE(torch::equal(list.at(1), x.t()));
  EXPECT_EQ(rank, 2);
  EXPECT_FALSE(none.has_value());
  EXPECT_TRUE(torch::equal(*std::get<3>(fast(x, std::optional<Tensor>(x))), x - 1)); // another variant
  EXPECT_EQ(fast.explain().counters.captures, 2u);
}

TEST(Compile, LstmReturnsNestedTuples) {
  torch::NoGradGuard noGrad;
  torch::nn::LSTM model(torch::nn::LSTMOptions(4, 8).batch_first(true));
  auto fast = compile(model, kTrusted);
  Tensor x = torch::randn({2, 5, 4});
  fast(x);
  auto [output, state] = fast(x);
  auto [wantOutput, wantState] = model(x);
  EXPECT_TRUE(torch::equal(output, wantOutput));
  EXPECT_TRUE(torch::equal(std::get<1>(state), std::get<1>(wantState)));
  EXPECT_EQ(fast.explain().counters.hits, 1u);
}

TEST(Compile, TorchScript) {
  torch::NoGradGuard noGrad;
  torch::jit::Module model("Scripted");
  model.register_parameter("weight", torch::randn({4, 8}), /*is_buffer=*/false);
  model.define("def forward(self, x):\n  return torch.relu(torch.matmul(x, self.weight.t())), x.size(0)\n");
  auto fast = compile(model, kTrusted);
  Tensor x = torch::randn({3, 8});
  fast(x);
  auto [y, rows] = fast(x).as<std::tuple<Tensor, int64_t>>();
  auto want = model.forward({x}).toTuple();
  EXPECT_TRUE(torch::equal(y, want->elements()[0].toTensor()));
  EXPECT_EQ(rows, 3);
  EXPECT_TRUE(torch::equal(fast.forward({x}).toTuple()->elements()[0].toTensor(), y));
  EXPECT_EQ(fast.explain().counters.hits, 2u);
}

TEST(Compile, VoidProgramsWriteTheirArguments) {
  torch::NoGradGuard noGrad;
  auto fast = compile([](Tensor x) { x.add_(1); }, kTrusted);
  Tensor x = torch::zeros({3});
  for (int i = 0; i < 3; ++i)
    fast(x);
  EXPECT_TRUE(torch::equal(x, torch::full({3}, 3.0)));
}

TEST(Compile, ErrorsOfTheProgramPassThrough) {
  torch::NoGradGuard noGrad;
  auto fast = compile([](const Tensor &x) { return x.view({7}); }, kTrusted);
  EXPECT_THROW(fast(torch::zeros({3})), c10::Error);
  EXPECT_TRUE(torch::equal(fast(torch::zeros({7})), torch::zeros({7}))); // and leave nothing behind
}

TEST(Compile, CompilationsCountVariants) {
  torch::NoGradGuard noGrad;
  auto fast = compile([](const Tensor &x) { return x + 1; }, kTrusted);
  const uint64_t before = compilations();
  for (int64_t size : {2, 2, 3, 3, 2})
    fast(torch::zeros({size}));
  EXPECT_EQ(compilations() - before, 2u);
}

TEST(Compile, DisableRunsTheProgram) {
  torch::NoGradGuard noGrad;
  auto fast = compile([](const Tensor &x) { return x + 1; }, {.disable = true});
  fast(torch::zeros({2}));
  EXPECT_EQ(fast.explain().counters.eagerRuns, 1u);
  EXPECT_EQ(fast.explain().counters.captures, 0u);
}

} // namespace
} // namespace graphopt::testing_api
