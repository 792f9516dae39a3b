// Compiled backwards at sizes that vary from call to call: one plan for all of them, eager's bits at each.
#include "same_bits.h"

#include <graphopt/graphopt.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

namespace {

using at::Tensor;
using graphopt::test::sameBits;
using Tensors = std::vector<Tensor>;

/// Attention over a batch of sequences, then a loss: batch and length reach views, reductions and divisors.
struct Attention : torch::nn::Module {
  torch::nn::Linear in{nullptr}, out{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Embedding table{nullptr};
  Attention() {
    table = register_module("table", torch::nn::Embedding(20, 16));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})));
    in = register_module("in", torch::nn::Linear(16, 48));
    out = register_module("out", torch::nn::Linear(16, 20));
  }
  Tensor forward(const Tensor &ids) {
    const Tensor x = table(ids);
    const auto parts =
        in(norm(x)).view({ids.size(0), ids.size(1), 3, 2, 8}).permute({2, 0, 3, 1, 4}).unbind(0);
    const Tensor h =
        at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
    const Tensor y = out(h.transpose(1, 2).reshape({ids.size(0), ids.size(1), 16}) + x);
    return at::cross_entropy_loss(y.slice(1, 0, ids.size(1) - 1).reshape({-1, 20}),
                                  ids.slice(1, 1).reshape(-1));
  }
};

/// Convolutions: sizes that are halved, and channels that are not.
struct Convolutions : torch::nn::Module {
  torch::nn::Conv2d one{nullptr}, two{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  Convolutions() {
    one = register_module("one", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3).stride(2).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(4));
    two = register_module("two", torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 5, 3)));
  }
  Tensor forward(const Tensor &x) {
    const Tensor h =
        at::max_pool2d(at::relu(norm(one(x))), {2, 2}, {2, 2}, {0, 0}, {1, 1}, /*ceil_mode=*/true);
    return at::adaptive_avg_pool2d(two(h), {1, 1}).flatten(1).pow(2).mean();
  }
};

/// Images in channels-last order, read as sequences: strides that kernels choose, and views that depend on
/// them.
struct Patches : torch::nn::Module {
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::LayerNorm layerNorm{nullptr};
  torch::nn::Linear qkv{nullptr};
  Patches() {
    conv =
        register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 32, 3).padding(1).stride(2)));
    norm = register_module("norm", torch::nn::BatchNorm2d(32));
    layerNorm = register_module("layerNorm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})));
    qkv = register_module("qkv", torch::nn::Linear(32, 96));
    conv->weight.set_data(conv->weight.contiguous(at::MemoryFormat::ChannelsLast));
  }
  virtual Tensor mixed(const Tensor &x) { return x; }
  Tensor forward(Tensor x) {
    x = torch::gelu(norm(conv(x)));
    x = mixed(x.flatten(2).transpose(1, 2).contiguous());
    const int64_t batch = x.size(0), length = x.size(1);
    const auto parts = qkv(layerNorm(x)).view({batch, length, 3, 2, 16}).permute({2, 0, 3, 1, 4}).unbind(0);
    const Tensor seen = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true);
    return (seen.transpose(1, 2).reshape({batch, length, 32}) + x).square().mean();
  }
};

struct RecurrentPatches : Patches {
  torch::nn::LSTM lstm{nullptr};
  RecurrentPatches() {
    lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(32, 32).batch_first(true)));
  }
  Tensor mixed(const Tensor &x) override { return std::get<0>(lstm(x)); }
};

/// The same operator where nothing is written, so that a backward may run the segment again.
struct Recurrent : torch::nn::Module {
  torch::nn::Linear into{nullptr}, outOf{nullptr};
  torch::nn::LSTM lstm{nullptr};
  Recurrent() {
    into = register_module("into", torch::nn::Linear(6, 16));
    lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(16, 16).batch_first(true)));
    outOf = register_module("outOf", torch::nn::Linear(16, 3));
  }
  Tensor forward(const Tensor &x) { return outOf(std::get<0>(lstm(torch::gelu(into(x))))).sum(); }
};

using Sizes = std::vector<std::vector<int64_t>>;

template <class Net> Tensor input(const std::vector<int64_t> &sizes, int64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
  if constexpr (std::is_same_v<Net, Attention>)
    return torch::randint(0, 20, sizes, generator);
  else if constexpr (std::is_base_of_v<Patches, Net>)
    return torch::randn(sizes, generator).contiguous(at::MemoryFormat::ChannelsLast);
  else
    return torch::randn(sizes, generator);
}

template <class Net>
Tensors train(Net &net, const std::function<Tensor(const Tensor &)> &forward, const Sizes &sizes) {
  torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  Tensors seen;
  for (size_t i = 0; i < sizes.size(); ++i) {
    optimizer.zero_grad();
    const Tensor loss = forward(input<Net>(sizes[i], static_cast<int64_t>(i)));
    loss.backward();
    optimizer.step();
    seen.push_back(loss.detach());
  }
  for (const Tensor &parameter : net.parameters())
    seen.push_back(parameter.detach());
  for (const Tensor &buffer : net.buffers())
    seen.push_back(buffer);
  return seen;
}

template <class Net> graphopt::Explanation expectAsEager(const Sizes &sizes) {
  torch::manual_seed(1);
  const auto eager = std::make_shared<Net>();
  torch::manual_seed(1);
  const auto net = std::make_shared<Net>();
  const Tensors expected = train<Net>(*eager, [&](const Tensor &x) { return eager->forward(x); }, sizes);
  auto fast = graphopt::compile(net);
  const Tensors got = train<Net>(*net, [&](const Tensor &x) { return fast(x); }, sizes);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(sameBits(expected[i], got[i])) << "value " << i << "\n" << fast.explain();
  return fast.explain();
}

TEST(SizedBackward, BatchesAndLengths) {
  Sizes sizes = {{4, 6}, {4, 6}, {5, 7}, {4, 6}};
  for (int64_t i = 0; i < 30; ++i)
    sizes.push_back({2 + (i * 7) % 5, 3 + (i * 5) % 11});
  const graphopt::Explanation explanation = expectAsEager<Attention>(sizes);
  EXPECT_GE(explanation.compiledRuns, 28u) << explanation;
  EXPECT_LE(explanation.compiledSegments, 4u) << explanation;
  EXPECT_TRUE(explanation.notCompiled.empty()) << explanation;
  EXPECT_TRUE(explanation.opaque.empty()) << explanation;
}

TEST(SizedBackward, TheLastBatchOfAnEpochIsSmaller) {
  Sizes sizes;
  for (int epoch = 0; epoch < 4; ++epoch)
    for (int64_t batch : {8, 8, 8, 3})
      sizes.push_back({batch, 3, 14, 14});
  const graphopt::Explanation explanation = expectAsEager<Convolutions>(sizes);
  EXPECT_GE(explanation.compiledRuns, 10u) << explanation;
  EXPECT_TRUE(explanation.notCompiled.empty()) << explanation;
}

TEST(SizedBackward, ImagesOfManySizes) {
  Sizes sizes = {{2, 3, 14, 14}, {2, 3, 14, 14}, {3, 3, 18, 22}};
  for (int64_t i = 0; i < 12; ++i)
    sizes.push_back({2 + i % 3, 3, 14 + 2 * (i % 5), 16 + 3 * (i % 4)});
  const graphopt::Explanation explanation = expectAsEager<Convolutions>(sizes);
  EXPECT_GE(explanation.compiledRuns, 10u) << explanation;
  EXPECT_LE(explanation.compiledSegments, 4u) << explanation;
  EXPECT_TRUE(explanation.opaque.empty()) << explanation; // sizes of windows are expressions too
}

TEST(SizedBackward, ImagesInChannelsLastOrder) {
  Sizes sizes;
  for (int64_t i = 0; i < 24; ++i)
    sizes.push_back({2 + i * 3 % 7, 8, 6 + i * 5 % 23, 4 + i * 7 % 19});
  const graphopt::Explanation explanation = expectAsEager<Patches>(sizes);
  EXPECT_GE(explanation.compiledRuns, 18u) << explanation;
  EXPECT_TRUE(explanation.notCompiled.empty()) << explanation;
}

/// oneDNN's LSTM has a workspace of a size that no expression says: it is not taken apart for many sizes, and
/// its gradient lies as it likes. Here batch norm writes its statistics: nothing may run again.
TEST(SizedBackward, AnOperatorThatIsNotTakenApartGivesItsGradientToOthers) {
  Sizes sizes;
  for (int64_t i = 0; i < 12; ++i)
    sizes.push_back({2 + i * 3 % 7, 8, 6 + i * 5 % 23, 4 + i * 7 % 19});
  const graphopt::Explanation explanation = expectAsEager<RecurrentPatches>(sizes);
  ASSERT_EQ(explanation.notCompiled.size(), 1u) << explanation;
  EXPECT_NE(explanation.notCompiled.begin()->first.find("was not taken apart"), std::string::npos);
}

/// The backward looks at how the gradient lies, and the next plan is made for that.
TEST(SizedBackward, AGradientWhoseLayoutIsSeen) {
  Sizes sizes;
  for (int64_t i = 0; i < 24; ++i)
    sizes.push_back({2 + i * 3 % 7, 2 + i * 5 % 11, 6});
  const graphopt::Explanation explanation = expectAsEager<Recurrent>(sizes);
  EXPECT_GE(explanation.compiledRuns, 18u) << explanation;
  EXPECT_LE(explanation.backwardsAgain, 6u) << explanation;
  EXPECT_TRUE(explanation.notCompiled.empty()) << explanation;
}

/// A batch of one is no batch to broadcasting: it goes another way, and back.
TEST(SizedBackward, ABatchOfOneInBetween) {
  Sizes sizes;
  for (int64_t i = 0; i < 16; ++i)
    sizes.push_back({i % 4 == 3 ? 1 : 2 + i % 4, 5 + i % 3});
  const graphopt::Explanation explanation = expectAsEager<Attention>(sizes);
  EXPECT_GT(explanation.compiledRuns, 4u) << explanation;
}

} // namespace
