// Dynamic shapes: sizes and integers that change between calls need no recording, and results are eager's.
#include <graphopt/graphopt.h>
#include <gtest/gtest.h>
#include <random>
#include <torch/torch.h>

namespace {

using at::Tensor;
using graphopt::Dynamic;

/// Calls both with the same arguments, in order, and expects equal results.
template <class Fast, class Code> class Pair {
public:
  Pair(Fast &fast, Code &code) : fast_(fast), code_(code) {}
  template <class... Args> void expectEqual(const Args &...args) {
    Tensor expected = code_(args...), actual = fast_(args...);
    ASSERT_EQ(expected.sizes(), actual.sizes()) << fast_.explain();
    ASSERT_EQ(expected.strides(), actual.strides()) << fast_.explain();
    ASSERT_TRUE(torch::equal(expected, actual)) << fast_.explain();
  }

private:
  Fast &fast_;
  Code &code_;
};

struct Attention : torch::nn::Module {
  torch::nn::Embedding embedding{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
  Attention() {
    embedding = register_module("embedding", torch::nn::Embedding(50, 32));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})));
    qkv = register_module("qkv", torch::nn::Linear(32, 96));
    out = register_module("out", torch::nn::Linear(32, 32));
    up = register_module("up", torch::nn::Linear(32, 64));
    down = register_module("down", torch::nn::Linear(64, 32));
  }
  Tensor forward(const Tensor &tokens) {
    int64_t batch = tokens.size(0), length = tokens.size(1);
    Tensor x = embedding(tokens);
    x = x + torch::arange(length, torch::kFloat).unsqueeze(-1) * 0.01;
    auto parts = qkv(norm(x)).view({batch, length, 3, 4, 8}).permute({2, 0, 3, 1, 4}).unbind(0);
    Tensor mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true);
    x = x + out(mixed.transpose(1, 2).reshape({batch, length, 32}));
    x = x + down(torch::gelu(up(norm(x))));
    return torch::cat({x.mean(1), x.select(1, -1)}, 1);
  }
};

TEST(Dynamic, fiftyBatchesAndLengthsOfATransformer) {
  auto model = std::make_shared<Attention>();
  auto fast = graphopt::compile(model);
  auto code = [&](const Tensor &tokens) { return model->forward(tokens); };
  Pair pair(fast, code);
  std::mt19937 random(7);
  auto draw = [&] { return static_cast<int64_t>(2 + random() % 30); };
  pair.expectEqual(torch::randint(50, {4, 7}));
  pair.expectEqual(torch::randint(50, {5, 9}));
  uint64_t recordings = fast.explain().shadow.recordings;
  for (int i = 0; i < 50; ++i)
    pair.expectEqual(torch::randint(50, {draw(), draw()}));
  graphopt::Explanation explanation = fast.explain();
  EXPECT_EQ(explanation.shadow.recordings, recordings) << explanation;
  EXPECT_EQ(explanation.shadow.divergences, 0u) << explanation;
  EXPECT_GE(explanation.shadow.derivations, 40u) << explanation;
  EXPECT_LE(explanation.segments.size(), 40u) << explanation;
}

struct Convolutions : torch::nn::Module {
  torch::nn::Conv2d first{nullptr}, second{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear head{nullptr};
  Convolutions() {
    first =
        register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).stride(2).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(8));
    second = register_module("second", torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 8, 3).groups(2)));
    head = register_module("head", torch::nn::Linear(8, 4));
  }
  Tensor forward(const Tensor &x) {
    Tensor y = torch::max_pool2d(torch::relu(norm(first(x))), 2);
    y = torch::adaptive_avg_pool2d((second(y) + 1).mul_(2), {1, 1});
    return head(y.flatten(1));
  }
};

TEST(Dynamic, imagesOfManySizesInTraining) {
  auto make = [] {
    torch::manual_seed(1);
    return std::make_shared<Convolutions>();
  };
  auto eager = make(), model = make();
  auto fast = graphopt::compile(model);
  std::mt19937 random(3);
  auto draw = [&](unsigned most) { return static_cast<int64_t>(most / 2 + random() % most); };
  uint64_t recordings = 0;
  for (int i = 0; i < 30; ++i) {
    Tensor x = torch::randn({2 + i % 5, 3, draw(24), draw(40)});
    Tensor expected = eager->forward(x), actual = fast(x);
    ASSERT_TRUE(torch::equal(expected, actual)) << i << fast.explain();
    expected.square().sum().backward();
    actual.square().sum().backward();
    auto p = eager->parameters(), q = model->parameters();
    for (size_t k = 0; k < p.size(); ++k)
      ASSERT_TRUE(torch::equal(p[k].grad(), q[k].grad())) << "call " << i << " parameter " << k;
    ASSERT_TRUE(torch::equal(eager->norm->running_mean, model->norm->running_mean)) << i;
    if (i == 1)
      recordings = fast.explain().shadow.recordings;
  }
  EXPECT_EQ(fast.explain().shadow.recordings, recordings) << fast.explain();
}

TEST(Dynamic, recurrentNetworks) {
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(6, 10).num_layers(2).batch_first(true));
  torch::nn::GRU gru(torch::nn::GRUOptions(10, 4).bidirectional(true));
  auto code = [&](const Tensor &x) {
    Tensor y = std::get<0>(lstm->forward(x));
    return std::get<0>(gru->forward(y)) + y.sum();
  };
  auto fast = graphopt::compile(code);
  Pair pair(fast, code);
  pair.expectEqual(torch::randn({3, 5, 6}));
  pair.expectEqual(torch::randn({4, 8, 6}));
  uint64_t recordings = fast.explain().shadow.recordings;
  for (int64_t i = 2; i < 20; ++i)
    pair.expectEqual(torch::randn({2 + i * 7 % 5, i, 6}));
  EXPECT_EQ(fast.explain().shadow.recordings, recordings) << fast.explain();
}

/// A cache written at a moving position, as decoders have.
TEST(Dynamic, positionsThatMove) {
  Tensor cache = torch::zeros({2, 64, 8}), other = cache.clone();
  auto step = [](Tensor &cache, const Tensor &x, int64_t position) {
    cache.narrow(1, position, 1).copy_(x);
    return cache.narrow(1, 0, position + 1).sum(1) + position * 2;
  };
  auto fast = graphopt::compile([&](const Tensor &x, int64_t position) { return step(cache, x, position); });
  uint64_t recordings = 0;
  for (int64_t i = 0; i < 40; ++i) {
    Tensor x = torch::randn({2, 1, 8});
    ASSERT_TRUE(torch::equal(fast(x, i), step(other, x, i))) << i << fast.explain();
    ASSERT_TRUE(torch::equal(cache, other)) << i;
    if (i == 4)
      recordings = fast.explain().shadow.recordings;
  }
  EXPECT_EQ(fast.explain().shadow.recordings, recordings) << fast.explain();
}

TEST(Dynamic, flagsAndDimsThatChangeNeedNoRecording) {
  auto code = [](const Tensor &x, bool descending, int64_t dim) {
    return std::get<0>(x.sort(dim, descending)).cumsum(dim) + x;
  };
  auto fast = graphopt::compile(code);
  Pair pair(fast, code);
  Tensor x = torch::randn({3, 4, 5});
  for (int i = 0; i < 12; ++i)
    pair.expectEqual(x, i / 3 % 2 == 0, i % 3);
  EXPECT_LE(fast.explain().shadow.recordings, 3u) << fast.explain();
}

TEST(Dynamic, branchesOnSizesAreTaken) {
  auto code = [](const Tensor &x) {
    return x.size(0) > 6 ? torch::tanh(x) * x.size(0) : torch::sigmoid(x) + x.numel();
  };
  auto fast = graphopt::compile(code);
  Pair pair(fast, code);
  for (int64_t i = 2; i < 30; ++i)
    pair.expectEqual(torch::randn({2 + i * 5 % 11, i % 7 + 2}));
  EXPECT_LE(fast.explain().shadow.recordings, 5u) << fast.explain();
}

TEST(Dynamic, sizesZeroAndOneAreRecordedUnlessMarked) {
  auto code = [](const Tensor &x) { return torch::softmax(x * 2, -1).mean(0) + 1; };
  for (bool isMarked : {false, true}) {
    auto fast = graphopt::compile(code);
    Pair pair(fast, code);
    Tensor first = torch::randn({3, 4});
    if (isMarked)
      graphopt::markDynamic(first, 0, 0, 10);
    pair.expectEqual(first);
    if (!isMarked)
      pair.expectEqual(torch::randn({5, 4}));
    uint64_t recordings = fast.explain().shadow.recordings;
    pair.expectEqual(torch::randn({7, 4}));
    EXPECT_EQ(fast.explain().shadow.recordings, recordings) << fast.explain();
    pair.expectEqual(torch::randn({1, 4}));
    Tensor none = torch::randn({0, 4});
    ASSERT_TRUE(fast(none).isnan().all().item<bool>());
    EXPECT_EQ(fast.explain().shadow.recordings, recordings + (isMarked ? 0 : 2)) << fast.explain();
    if (isMarked) {
      pair.expectEqual(torch::randn({11, 4})); // beyond the marked range
      EXPECT_EQ(fast.explain().shadow.recordings, recordings + 1) << fast.explain();
    }
  }
}

TEST(Dynamic, staticMarksAndPoliciesHold) {
  auto code = [](const Tensor &x) { return torch::tanh(x) * 3; };
  auto count = [&](const graphopt::CompileOptions &options, bool isStatic) {
    auto fast = graphopt::compile(code, options);
    for (int64_t size = 2; size < 8; ++size) {
      Tensor x = torch::randn({size, 3});
      if (isStatic)
        graphopt::markStatic(x, 0);
      EXPECT_TRUE(torch::equal(fast(x), code(x)));
    }
    return fast.explain().shadow.recordings;
  };
  EXPECT_EQ(count({}, false), 2u);
  EXPECT_EQ(count({}, true), 6u);
  EXPECT_EQ(count({.dynamic = Dynamic::always}, false), 1u);
  EXPECT_EQ(count({.dynamic = Dynamic::never}, false), 6u);
}

TEST(Dynamic, errorsAreEagers) {
  auto code = [](const Tensor &x, const Tensor &y) { return (torch::relu(x) + y).sum(); };
  auto fast = graphopt::compile(code);
  Pair pair(fast, code);
  for (int64_t size : {3, 4, 5})
    pair.expectEqual(torch::randn({size, 2}), torch::randn({size, 2}));
  EXPECT_THROW(fast(torch::randn({6, 2}), torch::randn({7, 2})), c10::Error);
  pair.expectEqual(torch::randn({6, 2}), torch::randn({6, 2}));
}

TEST(Dynamic, resultsOfOtherSizesOutliveTheirCall) {
  std::vector<Tensor> kept, expected;
  auto code = [](const Tensor &x) {
    Tensor y = torch::sin(x);
    return std::make_tuple(y.slice(0, 1), y);
  };
  auto fast = graphopt::compile(code);
  for (int64_t size = 2; size < 12; ++size) {
    Tensor x = torch::randn({size, 3});
    auto [view, base] = fast(x);
    ASSERT_TRUE(view.is_alias_of(base));
    base.mul_(2);
    kept.push_back(view);
    expected.push_back(torch::sin(x).mul(2).slice(0, 1));
  }
  for (size_t i = 0; i < kept.size(); ++i)
    ASSERT_TRUE(torch::equal(kept[i], expected[i])) << i;
}

TEST(Dynamic, resultsThatShrinkToOneElement) {
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(3, 4, 3));
  auto code = [&](const Tensor &x) { return conv->forward(x) + 1; };
  for (at::MemoryFormat format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    auto fast = graphopt::compile(code);
    Pair pair(fast, code);
    for (auto [height, width] : {std::pair(8, 9), {6, 7}, {5, 6}, {3, 5}, {4, 3}, {3, 3}, {7, 5}})
      pair.expectEqual(torch::randn({2, 3, height, width}).contiguous(format));
  }
}

TEST(Dynamic, segmentsAreExplainedWithSyms) {
  auto code = [](const Tensor &x, const Tensor &y) {
    return (x.view({x.size(0) * x.size(1), 6}) + 1).sum(1) + y.flatten() * 2;
  };
  auto fast = graphopt::compile(code);
  for (auto [batch, length] : {std::pair(2, 3), {4, 7}, {5, 9}, {3, 8}})
    fast(torch::randn({batch, length, 6}), torch::randn({batch, length}));
  const graphopt::Explanation explanation = fast.explain();
  const std::string &graph = explanation.segments.at(0).graph;
  EXPECT_NE(graph.find("sym S0 in [2, inf]"), std::string::npos) << graph;
  EXPECT_NE(graph.find("f32[S0, S1, 6]"), std::string::npos) << graph; // y's dims are x's
  EXPECT_NE(graph.find("size=[S0*S1, 6]"), std::string::npos) << graph;
  EXPECT_EQ(graph.find("S2"), std::string::npos) << graph;
  EXPECT_EQ(explanation.dynamic.size(), 5u) << explanation;
}

TEST(Dynamic, wrongMarksAreErrors) {
  Tensor x = torch::randn({3, 4});
  EXPECT_ANY_THROW(graphopt::markDynamic(x, 2));
  EXPECT_ANY_THROW(graphopt::markDynamic(x, 0, 4, 9));
  EXPECT_ANY_THROW(graphopt::markDynamic(x, 0, 5, 4));
  EXPECT_ANY_THROW(graphopt::markStatic(Tensor(), 0));
}

} // namespace
