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

/// What LibTorch has several kernels for, with a layout of its own each: attention, convolutions in either
/// memory format, cuDNN's recurrent networks.
struct Many : torch::nn::Module {
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::LSTM lstm{nullptr};
  torch::nn::LayerNorm layerNorm{nullptr};
  torch::nn::Linear qkv{nullptr};
  Many() {
    conv =
        register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 32, 3).padding(1).stride(2)));
    norm = register_module("norm", torch::nn::BatchNorm2d(32));
    lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(32, 32).batch_first(true)));
    layerNorm = register_module("layerNorm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})));
    qkv = register_module("qkv", torch::nn::Linear(32, 96));
  }
  Tensor forward(Tensor x, bool isCausal) {
    x = torch::gelu(norm(conv(x)));
    x = x.flatten(2).transpose(1, 2).contiguous();
    x = std::get<0>(lstm(x));
    int64_t batch = x.size(0), length = x.size(1);
    auto parts = qkv(layerNorm(x)).view({batch, length, 3, 2, 16}).permute({2, 0, 3, 1, 4}).unbind(0);
    Tensor mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, isCausal);
    return mixed.transpose(1, 2).reshape({batch, length, 32}) + x;
  }
};

/// Fifty sizes, in training and not, in one dtype and memory format.
void expectManySizes(at::ScalarType dtype, at::MemoryFormat format) {
  at::globalContext().setDeterministicCuDNN(true);
  auto make = [&] {
    torch::manual_seed(0);
    auto model = std::make_shared<Many>();
    model->to(at::Device(at::kCUDA), dtype);
    model->conv->weight.set_data(model->conv->weight.contiguous(format));
    return model;
  };
  auto eager = make(), model = make();
  auto fast = graphopt::compile(model);
  uint64_t recordings = 0;
  for (int64_t i = 0; i < 52; ++i) {
    Tensor x = torch::randn({2 + i * 3 % 7, 8, 6 + i * 5 % 23, 4 + i * 7 % 19}, at::kCUDA);
    x = x.to(dtype).contiguous(format);
    Tensor y = eager->forward(x, true), z = fast(x, true);
    ASSERT_EQ(y.strides(), z.strides()) << "call " << i << fast.explain();
    ASSERT_TRUE(torch::equal(y, z)) << "call " << i << fast.explain();
    y.square().mean().backward();
    z.square().mean().backward();
    ASSERT_TRUE(torch::equal(eager->conv->weight.grad(), model->conv->weight.grad())) << "call " << i;
    if (i == 1)
      recordings = fast.explain().shadow.recordings;
  }
  EXPECT_EQ(fast.explain().shadow.recordings, recordings) << fast.explain();
}

TEST(ShadowGpu, sizesThatChange) {
  if (!hasGpu())
    GTEST_SKIP() << "no GPU";
  for (at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16})
    for (at::MemoryFormat format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast})
      expectManySizes(dtype, format);
}

/// Masks that the backward draws again, of dropout in several forms; the generator goes on as eager's.
TEST(ShadowGpu, drawsAgain) {
  if (!hasGpu())
    GTEST_SKIP() << "no GPU";
  for (const bool recompute : {false, true}) {
    const auto run = [&](bool compiled) {
      torch::manual_seed(2);
      auto first = torch::nn::Linear(64, 256);
      first->to(at::kCUDA);
      const auto code = [first](const Tensor &x) mutable {
        Tensor h = torch::dropout(torch::gelu(first(x)), 0.2, true);
        h = torch::rrelu(h * torch::rand_like(h), 0.1, 0.3, true);
        return torch::alpha_dropout(h, 0.1, true).square().sum();
      };
      auto fast = graphopt::compile(code, {.disable = !compiled, .strict = true, .recompute = recompute});
      std::vector<Tensor> values;
      for (int i = 0; i < 6; ++i) {
        const Tensor x = torch::ones({32, 64}, at::kCUDA).requires_grad_();
        const Tensor y = fast(x);
        values.push_back(torch::rand({5}, at::kCUDA));
        y.backward();
        values.insert(values.end(), {y.detach(), x.grad(), torch::rand({5}, at::kCUDA)});
      }
      return std::pair(values, fast.explain());
    };
    const auto [eager, nothing] = run(false);
    const auto [got, explanation] = run(true);
    for (size_t i = 0; i < eager.size(); ++i)
      ASSERT_TRUE(torch::equal(eager[i], got[i])) << "value " << i << explanation;
    EXPECT_GE(explanation.compiledRuns, 3u) << explanation;
  }
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
