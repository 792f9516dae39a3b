// Later calls: which facts are guarded, what is bound late, what results alias, what is counted.
#include "models.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <thread>

namespace graphopt::testing_api {
namespace {

using torch::Tensor;

TEST(Replay, MissNamesTheGuardWithBothSides) {
  torch::NoGradGuard noGrad;
  auto fast = compile([](const Tensor &x) { return x + 1; }, kTrusted);
  fast(torch::zeros({2, 16}));
  fast(torch::zeros({3, 16}));
  const Explanation explanation = fast.explain();
  ASSERT_EQ(explanation.misses.size(), 1u);
  const MissInfo &miss = explanation.misses[0];
  EXPECT_EQ(miss.call, 2u);
  EXPECT_GE(miss.guard, 0);
  EXPECT_NE(miss.text.find("f32[2, 16]"), std::string::npos) << miss.text;
  EXPECT_NE(miss.actual.find("f32[3, 16]"), std::string::npos) << miss.actual;
  EXPECT_NE(explanation.text().find("miss: call 2"), std::string::npos);
}

TEST(Replay, ScalarArgumentsAreGuarded) {
  torch::NoGradGuard noGrad;
  auto fast =
      compile([](const Tensor &x, double factor, bool negate) { return negate ? -x * factor : x * factor; },
              kTrusted);
  Tensor x = torch::ones({2});
  EXPECT_TRUE(torch::equal(fast(x, 2.0, false), x * 2));
  EXPECT_TRUE(torch::equal(fast(x, 3.0, false), x * 3));
  EXPECT_TRUE(torch::equal(fast(x, 2.0, true), x * -2));
  EXPECT_TRUE(torch::equal(fast(x, 2.0, false), x * 2));
  EXPECT_EQ(fast.explain().counters.captures, 3u);
}

TEST(Replay, TrainingModeIsGuarded) {
  torch::NoGradGuard noGrad;
  Norm model, twin;
  auto fast = compile(model, kTrusted);
  for (bool training : {true, true, false, false, true}) {
    model->train(training);
    twin->train(training);
    Tensor x = torch::randn({16, 8});
    torch::manual_seed(7);
    Tensor want = twin(x);
    torch::manual_seed(7);
    EXPECT_TRUE(torch::equal(fast(x), want));
    EXPECT_TRUE(torch::equal(model->norm->running_mean, twin->norm->running_mean));
    EXPECT_TRUE(torch::equal(model->norm->num_batches_tracked, twin->norm->num_batches_tracked));
  }
  const Explanation explanation = fast.explain();
  EXPECT_EQ(explanation.counters.captures, 2u);
  EXPECT_EQ(explanation.counters.hits, 3u);
  EXPECT_NE(explanation.misses.at(0).text.find("training(\"\") == on"), std::string::npos);
  EXPECT_EQ(explanation.misses.at(0).actual, "off");
}

TEST(Replay, ParametersAreReadAtEachCall) {
  torch::NoGradGuard noGrad;
  Mlp model;
  auto fast = compile(model, kTrusted);
  Tensor x = torch::randn({3, 8});
  fast(x);
  for (Tensor &parameter : model->parameters())
    parameter.add_(0.5);
  EXPECT_TRUE(torch::equal(fast(x), model(x)));
  model->first->weight.set_data(torch::randn({16, 8})); // swapped storage
  EXPECT_TRUE(torch::equal(fast(x), model(x)));
  EXPECT_EQ(fast.explain().counters.hits, 2u);
}

TEST(Replay, ResultsAliasAsInEager) {
  torch::NoGradGuard noGrad;
  Tensor weight = torch::zeros({4, 2});
  auto fast =
      compile([weight](Tensor x) { return std::vector<Tensor>{x, x.t(), weight[0], x + 1}; }, kTrusted);
  Tensor x = torch::zeros({2, 3});
  fast(x);
  std::vector<Tensor> results = fast(x);
  ASSERT_EQ(fast.explain().counters.hits, 1u);
  EXPECT_TRUE(results[0].is_same(x));
  results[1].fill_(5); // a view of the argument
  EXPECT_TRUE(torch::equal(x, torch::full({2, 3}, 5.0)));
  results[2].fill_(7); // a view of an outside tensor
  EXPECT_TRUE(torch::equal(weight[0], torch::full({2}, 7.0)));
  EXPECT_FALSE(results[3].is_alias_of(x));
  EXPECT_EQ(results[1].strides(), x.t().strides());
}

TEST(Replay, ResultsDoNotRequireGrad) {
  torch::NoGradGuard noGrad;
  Mlp model;
  auto fast = compile(model, kTrusted);
  Tensor x = torch::randn({3, 8});
  fast(x);
  EXPECT_FALSE(fast(x).requires_grad());
}

TEST(Replay, GradModeIsGuarded) {
  Tensor x = torch::zeros({2});
  auto fast = compile([](const Tensor &y) { return y + 1; }, kTrusted);
  fast(x); // grad mode on, but nothing requires grad
  torch::NoGradGuard noGrad;
  fast(x);
  EXPECT_EQ(fast.explain().counters.captures, 2u);
}

TEST(Replay, VariantsAreBoundedThenCallsRunEagerly) {
  torch::NoGradGuard noGrad;
  auto fast =
      compile([](const Tensor &x) { return x + 1; }, {.replay = Replay::trusted, .recompileLimit = 2});
  for (int64_t size = 1; size <= 5; ++size)
    EXPECT_TRUE(torch::equal(fast(torch::zeros({size})), torch::ones({size})));
  const Explanation explanation = fast.explain();
  EXPECT_EQ(explanation.variants.size(), 2u);
  EXPECT_EQ(explanation.counters.eagerRuns, 3u);
  ASSERT_EQ(explanation.eagerReasons.size(), 1u);
  EXPECT_NE(explanation.eagerReasons[0].find("recompileLimit"), std::string::npos);
  EXPECT_EQ(explanation.counters.calls,
            explanation.counters.hits + explanation.counters.captures + explanation.counters.eagerRuns);
}

TEST(Replay, ResetRecordsAgain) {
  torch::NoGradGuard noGrad;
  auto fast = compile([](const Tensor &x) { return x + 1; }, kTrusted);
  fast(torch::zeros({2}));
  fast.reset();
  fast(torch::zeros({2}));
  EXPECT_EQ(fast.explain().counters.captures, 2u);
  EXPECT_EQ(fast.explain().variants.size(), 1u);
}

TEST(Replay, ACompiledCallableInsideAnotherIsPartOfIt) {
  torch::NoGradGuard noGrad;
  auto inner = compile([](const Tensor &x) { return x * 2; }, kTrusted);
  auto outer = compile([inner](const Tensor &x) { return inner(x) + 1; }, kTrusted);
  Tensor x = torch::ones({2});
  outer(x);
  EXPECT_TRUE(torch::equal(outer(x), torch::full({2}, 3.0)));
  EXPECT_EQ(outer.explain().counters.hits, 1u);
  EXPECT_EQ(inner.explain().counters.captures, 0u);
}

TEST(Replay, AFailedCompileRunsEagerlyAndSaysSo) {
  torch::NoGradGuard noGrad;
  auto generator = at::detail::createCPUGenerator(5); // has no text, so no plan can hold it
  auto program = [generator](const Tensor &x) { return x + torch::rand({2}, generator); };
  auto fast = compile(program, kTrusted);
  fast(torch::zeros({2}));
  fast(torch::zeros({2}));
  const Explanation explanation = fast.explain();
  EXPECT_EQ(explanation.counters.failures, 1u);
  EXPECT_EQ(explanation.counters.eagerRuns, 1u);
  EXPECT_NE(explanation.text().find("the compile failed"), std::string::npos) << explanation.text();
  auto strict = compile(program, {.replay = Replay::trusted, .strict = true});
  EXPECT_THROW(strict(torch::zeros({2})), Error);
}

TEST(Replay, ManyThreads) {
  Mlp model;
  auto fast = compile(model, kTrusted);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      torch::NoGradGuard noGrad;
      for (int i = 0; i < 20; ++i) {
        Tensor x = torch::full({t % 2 + 1, 8}, 0.1 * i);
        Tensor want = torch::linear(torch::relu(torch::linear(x, model->first->weight, model->first->bias)),
                                    model->second->weight, model->second->bias);
        wrong += !torch::allclose(fast(x), want);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(fast.explain().counters.calls, 80u);
  EXPECT_EQ(fast.explain().counters.captures, 2u);
}

} // namespace
} // namespace graphopt::testing_api
