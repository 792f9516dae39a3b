// CompileOptions::layout: what the program sees is as without, and between convolutions images lie with their
// channels last.
#include "same_bits.h"

#include <graphopt/graphopt.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace {

using at::Tensor;
using graphopt::Layout;
using graphopt::test::sameBits;
using Tensors = std::vector<Tensor>;

torch::nn::Conv2d convolution(int64_t from, int64_t to) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 3).padding(1).bias(false));
}

/// Convolutions enough to be worth the conversions, statistics that are written, a result in the middle.
struct Net : torch::nn::Module {
  torch::nn::Sequential body;
  torch::nn::Linear head{nullptr};
  Net() {
    for (int i = 0; i < 6; ++i) {
      body->push_back(convolution(i == 0 ? 8 : 32, 32));
      body->push_back(torch::nn::BatchNorm2d(32));
      body->push_back(torch::nn::ReLU());
    }
    register_module("body", body);
    head = register_module("head", torch::nn::Linear(32, 5));
  }
  std::tuple<Tensor, Tensor> forward(const Tensor &x) {
    const Tensor images = body->forward(x);
    return {head(images.mean({2, 3})), images};
  }
};

struct Trained {
  Tensors values;
  std::vector<std::vector<int64_t>> strides;
  graphopt::Explanation explanation;
};

Trained train(const graphopt::CompileOptions &options, const std::vector<int64_t> &batches) {
  torch::manual_seed(1);
  auto net = std::make_shared<Net>();
  net->to(at::kDouble); // roundings of other kernels stay small
  auto fast = graphopt::compile(net, options);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  Trained trained;
  for (const int64_t batch : batches) {
    optimizer.zero_grad();
    const auto [scores, images] = fast(torch::randn({batch, 8, 24, 24}, at::kDouble));
    (scores.sum() + images.pow(2).mean()).backward();
    trained.values.insert(trained.values.end(), {scores.detach(), images.detach()});
    for (const Tensor &parameter : net->parameters())
      trained.values.push_back(parameter.grad().clone());
    optimizer.step();
  }
  for (const Tensor &buffer : net->buffers())
    trained.values.push_back(buffer);
  for (const Tensor &value : trained.values)
    trained.strides.push_back(value.strides().vec());
  trained.explanation = fast.explain();
  return trained;
}

void expectTheSameWithChannelsLast(const std::vector<int64_t> &batches) {
  const Trained eager = train({.disable = true}, batches);
  const Trained compiled = train({.strict = true, .layout = Layout::channelsLast}, batches);
  ASSERT_EQ(eager.values.size(), compiled.values.size());
  for (size_t i = 0; i < eager.values.size(); ++i)
    EXPECT_TRUE(at::allclose(eager.values[i], compiled.values[i], 1e-9, 1e-11)) << "value " << i;
  EXPECT_EQ(eager.strides, compiled.strides);
  EXPECT_GE(compiled.explanation.compiledRuns, 2u) << compiled.explanation;
  EXPECT_TRUE(compiled.explanation.notCompiled.empty()) << compiled.explanation;
}

TEST(Layout, ResultsLieAsInEager) { expectTheSameWithChannelsLast({4, 4, 4, 4, 4}); }

TEST(Layout, ForManySizes) { expectTheSameWithChannelsLast({4, 4, 5, 6, 4, 3, 6, 5}); }

/// Kernels round otherwise in another order: the bits tell which ran.
Tensor imagesOf(const graphopt::CompileOptions &options, bool isLastByHand) {
  torch::manual_seed(1);
  auto net = std::make_shared<Net>();
  Tensor x = torch::randn({4, 8, 24, 24});
  if (isLastByHand) {
    x = x.contiguous(at::MemoryFormat::ChannelsLast);
    for (Tensor &parameter : net->parameters())
      if (parameter.dim() == 4)
        parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
  }
  auto fast = graphopt::compile(net, options);
  for (int i = 0; i < 3; ++i)
    std::get<1>(fast(x)).sum().backward();
  return std::get<1>(fast(x)).detach();
}

TEST(Layout, IsAskedForByName) {
  const Tensor plain = imagesOf({.disable = true}, false), last = imagesOf({.disable = true}, true);
  ASSERT_FALSE(sameBits(plain, last));
  EXPECT_TRUE(sameBits(plain, imagesOf({.strict = true}, false)));
  EXPECT_TRUE(sameBits(last, imagesOf({.strict = true, .layout = Layout::channelsLast}, false)));
}

} // namespace
