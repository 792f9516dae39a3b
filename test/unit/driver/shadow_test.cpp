// Shadow mode: calls after the first are checked operator by operator, and equal eager in all that a program
// can see.
#include <graphopt/graphopt.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace {

using at::Tensor;

struct Block : torch::nn::Module {
  torch::nn::Linear up{nullptr}, down{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  Block() {
    up = register_module("up", torch::nn::Linear(8, 16));
    down = register_module("down", torch::nn::Linear(16, 8));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})));
  }
  Tensor forward(const Tensor &x) { return x + down(torch::relu(up(norm(x)))); }
};

template <class F> void expectEqualCalls(F make, int calls = 6) {
  torch::manual_seed(0);
  auto eager = make();
  torch::manual_seed(0);
  auto model = make();
  auto fast = graphopt::compile(model);
  for (int i = 0; i < calls; ++i) {
    Tensor x = torch::randn({4, 8});
    Tensor a = x.clone().requires_grad_(), b = x.clone().requires_grad_();
    Tensor y = eager->forward(a), z = fast(b);
    ASSERT_TRUE(torch::equal(y, z)) << "call " << i;
    y.square().sum().backward();
    z.square().sum().backward();
    ASSERT_TRUE(torch::equal(a.grad(), b.grad())) << "call " << i;
    auto p = eager->parameters(), q = model->parameters();
    for (size_t k = 0; k < p.size(); ++k)
      ASSERT_TRUE(torch::equal(p[k].grad(), q[k].grad())) << "call " << i << " parameter " << k;
  }
  EXPECT_EQ(fast.explain().shadow.divergences, 0u) << fast.explain();
  EXPECT_EQ(fast.explain().shadow.recordings, 1u) << fast.explain();
}

TEST(Shadow, trainsAsEager) {
  expectEqualCalls([] { return std::make_shared<Block>(); });
}

TEST(Shadow, hiddenCounter) {
  int step = 0, other = 0;
  auto code = [](int &step, const Tensor &x) {
    ++step;
    return step % 3 == 0 ? torch::tanh(x) * 2 : torch::sigmoid(x) + step * 0.1;
  };
  auto fast = graphopt::compile([&](const Tensor &x) { return code(step, x); });
  for (int i = 0; i < 12; ++i) {
    Tensor x = torch::randn({5});
    ASSERT_TRUE(torch::equal(fast(x), code(other, x))) << i << fast.explain();
  }
  EXPECT_LE(fast.explain().shadow.divergences, 2u) << fast.explain();
}

TEST(Shadow, hostReadsInLoops) {
  auto code = [](Tensor x) {
    while (x.norm().item<double>() > 1)
      x = x * 0.5;
    return x + 1;
  };
  auto fast = graphopt::compile(code);
  for (int i = 0; i < 10; ++i) {
    Tensor x = torch::randn({5}) * (i + 1);
    ASSERT_TRUE(torch::equal(fast(x), code(x))) << i << fast.explain();
  }
  EXPECT_LE(fast.explain().segments.size(), 4u) << fast.explain();
}

TEST(Shadow, coinFlipsCostLinearlyManySegments) {
  constexpr int k = 8;
  std::array<bool, k> coins{};
  auto code = [&](Tensor x) {
    for (bool coin : coins)
      x = coin ? torch::tanh(x) + 1 : torch::sigmoid(x) * 3;
    return x;
  };
  auto fast = graphopt::compile(code);
  uint64_t recordings = 0;
  for (int i = 0; i < 1000; ++i) {
    for (bool &coin : coins)
      coin = std::rand() & 1;
    Tensor x = torch::randn({3});
    ASSERT_TRUE(torch::equal(fast(x), code(x)));
    if (i == 199)
      recordings = fast.explain().shadow.recordings;
  }
  EXPECT_LE(fast.explain().segments.size(), 2u * k + 2) << fast.explain();
  EXPECT_EQ(fast.explain().shadow.recordings, recordings);
}

} // namespace
