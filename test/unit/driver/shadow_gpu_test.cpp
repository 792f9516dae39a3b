// Shadow mode on a GPU, where there is one: the same promises, with LibTorch's CUDA generator, autocast and
// convolutions.
#include "runtime/device.h"

#include <ATen/autocast_mode.h>
#include <graphopt/graphopt.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace {

using at::Tensor;

struct Net : torch::nn::Module {
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear head{nullptr};
  Tensor seen;
  Net() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(8));
    head = register_module("head", torch::nn::Linear(8, 4));
    seen = register_buffer("seen", torch::zeros({1}));
  }
  Tensor forward(Tensor x, bool amp) {
    at::autocast::set_autocast_enabled(at::kCUDA, amp);
    x = torch::relu(norm(conv(x)));
    x = torch::dropout(x.mean({2, 3}), 0.3, is_training());
    seen.add_(1);
    x = head(x);
    at::autocast::set_autocast_enabled(at::kCUDA, false);
    return x + torch::tensor({1.0F, 2.0F, 3.0F, 4.0F}, x.device());
  }
};

/// Whether the process has a GPU; loads LibTorch's CUDA library.
bool hasGpu() {
  try {
    graphopt::runtime::requireDevice(*graphopt::ir::parseDevice("cuda:0"));
    return at::globalContext().hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0;
  } catch (const std::exception &) {
    return false;
  }
}

TEST(ShadowGpu, trainsAsEager) {
  if (!hasGpu())
    GTEST_SKIP() << "no GPU";
  at::globalContext().setDeterministicCuDNN(true);
  torch::manual_seed(0);
  auto eager = std::make_shared<Net>();
  torch::manual_seed(0);
  auto model = std::make_shared<Net>();
  eager->to(at::kCUDA);
  model->to(at::kCUDA);
  torch::optim::SGD one(eager->parameters(), 0.1), two(model->parameters(), 0.1);
  auto fast = graphopt::compile(model);
  for (int i = 0; i < 12; ++i) {
    Tensor x = torch::randn({4, 3, 8, 8}, at::kCUDA);
    bool amp = i >= 6;
    auto step = [&](auto &&forward, torch::optim::SGD &optimizer) {
      torch::manual_seed(i);
      optimizer.zero_grad();
      Tensor y = forward(x, amp);
      y.square().mean().backward();
      optimizer.step();
      return y;
    };
    Tensor y = step([&](auto &...args) { return eager->forward(args...); }, one);
    Tensor z = step([&](auto &...args) { return fast(args...); }, two);
    ASSERT_TRUE(torch::equal(y, z)) << "call " << i << fast.explain();
    auto p = eager->parameters(), q = model->parameters();
    for (size_t k = 0; k < p.size(); ++k)
      ASSERT_TRUE(torch::equal(p[k], q[k])) << "call " << i << " parameter " << k;
    ASSERT_TRUE(torch::equal(eager->norm->running_mean, model->norm->running_mean)) << "call " << i;
    ASSERT_TRUE(torch::equal(eager->seen, model->seen)) << "call " << i;
  }
  EXPECT_LE(fast.explain().shadow.divergences, 1u) << fast.explain();
}

TEST(ShadowGpu, decisionsOnValues) {
  if (!hasGpu())
    GTEST_SKIP() << "no GPU";
  auto code = [](Tensor x) {
    while (x.norm().item<double>() > 1)
      x = x * 0.5;
    return x.index({x > 0}).sum() + x.amax();
  };
  auto fast = graphopt::compile(code);
  for (int i = 0; i < 10; ++i) {
    Tensor x = torch::randn({64}, at::kCUDA) * (i + 1);
    ASSERT_TRUE(torch::equal(fast(x), code(x))) << i << fast.explain();
  }
}

} // namespace
