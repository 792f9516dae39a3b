// Results that other results are computed from: each part of a segment has a node of its own, and programs
// get from the chain of them what they get from autograd's.
#include "same_bits.h"

#include <graphopt/graphopt.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

namespace {

using at::Tensor;
using graphopt::test::sameBits;
using Tensors = std::vector<Tensor>;
using Forward = std::function<Tensors(const Tensor &)>;
using Program = std::function<Tensors(const Forward &forward, torch::nn::Module &model)>;

/// A cell run over a sequence: all states stacked, and the last one. Its weights are used at each step.
struct Cells : torch::nn::Module {
  torch::nn::Linear in{4, 6}, again{6, 6}, out{6, 6};
  Cells() {
    register_module("in", in);
    register_module("again", again);
    register_module("out", out);
  }
  Tensors forward(const Tensor &x) {
    Tensor h = at::zeros({x.size(0), 6});
    Tensors all;
    for (int64_t step = 0; step < x.size(1); ++step)
      all.push_back(h = at::tanh(in(x.select(1, step)) + again(h)));
    return {h, out(at::stack(all, 1)), at::sigmoid(h * h) + h};
  }
};

/// Hidden states of a stack of layers, as transformers give them; one weight is shared by all.
struct Layers : torch::nn::Module {
  torch::nn::Linear shared{4, 4};
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({4})};
  Layers() {
    register_module("shared", shared);
    register_module("norm", norm);
  }
  Tensors forward(const Tensor &x) {
    Tensors all;
    Tensor h = x.flatten(0, 1);
    for (int layer = 0; layer < 3; ++layer)
      all.push_back(h = h + at::gelu(shared(norm(h))));
    return all;
  }
};

/// Views of one another, of a parameter, and of what no result is.
struct Views : torch::nn::Module {
  torch::nn::Linear in{4, 6};
  Tensor table;
  Views() {
    register_module("in", in);
    table = register_parameter("table", torch::randn({3, 4}));
  }
  Tensors forward(const Tensor &x) {
    const Tensor h = in(x).tanh(), rest = in(x + table.unsqueeze(1)).sigmoid();
    const Tensors halves = rest.chunk(2, 2);
    return {h,
            h.select(1, 0),
            (h.select(1, 1) * halves[1].select(1, 0).sum(1, true)).exp(),
            h.transpose(0, 1).contiguous().view({5, 18}),
            halves[0] * 2,
            halves[1],
            table.t()};
  }
};

Tensor input(int64_t seed = 0) {
  return torch::randn({3, 5, 4}, at::detail::createCPUGenerator(static_cast<uint64_t>(seed)));
}

Tensors gradientsOf(const torch::nn::Module &model) {
  Tensors gradients;
  for (const Tensor &parameter : model.parameters())
    gradients.push_back(parameter.grad());
  return gradients;
}

void zeroGradients(torch::nn::Module &model) {
  for (const Tensor &parameter : model.parameters())
    parameter.mutable_grad() = Tensor();
}

/// The program six times, in eager and compiled: all that it gives has the same bits. `again`: backwards for
/// which no plan was there yet.
template <class Model> void expectAsEager(const Program &program, uint64_t again = 1) {
  Tensors values[2];
  graphopt::Explanation explanation;
  for (bool compiled : {false, true}) {
    torch::manual_seed(3);
    auto model = std::make_shared<Model>();
    auto fast = graphopt::compile(model);
    const Forward forward = [&](const Tensor &x) { return compiled ? fast(x) : model->forward(x); };
    for (int i = 0; i < 6; ++i) { // records, sees how gradients come, compiles
      for (Tensor &value : program(forward, *model))
        values[compiled].push_back(value.defined() ? value.detach().clone() : value);
      zeroGradients(*model);
    }
    explanation = fast.explain();
  }
  ASSERT_EQ(values[0].size(), values[1].size());
  for (size_t i = 0; i < values[0].size(); ++i)
    EXPECT_TRUE(sameBits(values[0][i], values[1][i])) << "value " << i << "\n" << explanation;
  EXPECT_GE(explanation.compiledRuns, 3u) << explanation;
  EXPECT_LE(explanation.backwardsAgain, again) << explanation;
  EXPECT_TRUE(explanation.notCompiled.empty()) << explanation;
}

Tensors withGradients(Tensors values, const torch::nn::Module &model) {
  const Tensors gradients = gradientsOf(model);
  values.insert(values.end(), gradients.begin(), gradients.end());
  return values;
}

Tensor weighted(const Tensors &results) {
  Tensor loss;
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor term = (results[i] * (0.3 + 0.7 * static_cast<double>(i))).pow(2).mean();
    loss = loss.defined() ? loss + term : term;
  }
  return loss;
}

template <class Model> class InnerResults : public testing::Test {};
/// A result that is written without gradients on, and one that operators gave back as it was.
struct Kept : torch::nn::Module {
  torch::nn::Linear in{4, 6};
  Tensor scale;
  Kept() {
    register_module("in", in);
    scale = register_parameter("scale", torch::randn({6}));
  }
  Tensors forward(const Tensor &x) {
    Tensor h = in(x);
    {
      const torch::NoGradGuard noGrad;
      h.mul_(0.5);
    }
    const Tensor k = torch::gelu(h), l = k * scale;
    return {h, torch::dropout(k, 0.1, false).to(at::kFloat), l.exp()};
  }
};

using Models = testing::Types<Cells, Layers, Views, Kept>;
TYPED_TEST_SUITE(InnerResults, Models);

TYPED_TEST(InnerResults, oneLossOfAll) {
  expectAsEager<TypeParam>([](const Forward &forward, torch::nn::Module &model) {
    const Tensors results = forward(input(1));
    weighted(results).backward();
    return withGradients(results, model);
  });
}

TYPED_TEST(InnerResults, aLossOfEachAlone) {
  for (size_t which : {0, 1, 2})
    expectAsEager<TypeParam>([which](const Forward &forward, torch::nn::Module &model) {
      forward(input(1))[which].pow(2).sum().backward();
      return gradientsOf(model);
    });
}

TYPED_TEST(InnerResults, gradientsOfInnerResults) {
  expectAsEager<TypeParam>([](const Forward &forward, torch::nn::Module &) {
    const Tensors results = forward(input(1).requires_grad_());
    return torch::autograd::grad({results[2].pow(2).sum()}, {results[0], results[2]});
  });
}

TYPED_TEST(InnerResults, hooksAndKeptGradients) {
  expectAsEager<TypeParam>([](const Forward &forward, torch::nn::Module &model) {
    const Tensors results = forward(input(1));
    Tensors seen;
    results[0].register_hook([&](const Tensor &gradient) {
      seen.push_back(gradient.clone());
      return gradient * 2;
    });
    results[1].retain_grad();
    weighted(results).backward();
    seen.push_back(results[1].grad());
    return withGradients(seen, model);
  });
}

TYPED_TEST(InnerResults, gradientsOfTheInput) {
  expectAsEager<TypeParam>([](const Forward &forward, torch::nn::Module &model) {
    const Tensor x = input(1).requires_grad_(), before = x * 2;
    weighted(forward(before)).backward();
    return withGradients({x.grad()}, model);
  });
}

TYPED_TEST(InnerResults, twoBackwards) {
  expectAsEager<TypeParam>(
      [](const Forward &forward, torch::nn::Module &model) {
        const Tensors results = forward(input(1));
        results[0].pow(2).sum().backward({}, /*retain_graph=*/true);
        results[1].pow(2).sum().backward();
        return gradientsOf(model);
      },
      /*again=*/6);
}

TYPED_TEST(InnerResults, detachedInBetween) {
  expectAsEager<TypeParam>([](const Forward &forward, torch::nn::Module &model) {
    const Tensors first = forward(input(1));
    const Tensors second = forward(input(2) + first[0].detach().mean());
    weighted(second).backward();
    return gradientsOf(model);
  });
}

/// Eager raises an error at backward when an inner result was written though a later part needs it.
TYPED_TEST(InnerResults, writtenAfterwards) {
  for (bool compiled : {false, true}) {
    auto model = std::make_shared<TypeParam>();
    auto fast = graphopt::compile(model);
    for (int i = 0; i < 4; ++i) {
      const Tensors results = compiled ? fast(input()) : model->forward(input());
      if (i < 3) {
        weighted(results).backward();
        continue;
      }
      const Tensor last = results[2].pow(2).sum();
      results[0].mul_(2);
      EXPECT_THROW(last.backward(), c10::Error) << compiled;
    }
  }
}

/// A segment that writes statistics cannot run again, and serves each backward by one plan: also the first
/// that reaches a result which none reached before.
struct Statistics : torch::nn::Module {
  torch::nn::Linear in{4, 6};
  torch::nn::BatchNorm1d norm{6};
  Tensor scale;
  Statistics() {
    register_module("in", in);
    register_module("norm", norm);
    scale = register_parameter("scale", torch::ones({6}));
  }
  Tensors forward(const Tensor &x) {
    const Tensor y = norm(in(x.flatten(0, 1)));
    return {y, (y.detach() * scale).sigmoid()};
  }
};

TEST(InnerResultsOfWriters, aResultThatNoBackwardReachedBefore) {
  Tensors values[2];
  graphopt::Explanation explanation;
  for (bool compiled : {false, true}) {
    torch::manual_seed(3);
    auto model = std::make_shared<Statistics>();
    auto fast = graphopt::compile(model);
    for (int step = 0; step < 10; ++step) {
      const Tensors results = compiled ? fast(input(step)) : model->forward(input(step));
      results[step < 5 ? 1 : 0].pow(2).sum().backward();
      for (const Tensor &gradient : gradientsOf(*model))
        values[compiled].push_back(gradient.defined() ? gradient.clone() : gradient);
      zeroGradients(*model);
    }
    explanation = fast.explain();
  }
  for (size_t i = 0; i < values[0].size(); ++i)
    EXPECT_TRUE(sameBits(values[0][i], values[1][i])) << "value " << i << "\n" << explanation;
  EXPECT_GE(explanation.compiledRuns, 7u) << explanation;
  EXPECT_EQ(explanation.backwardsAgain, 0u) << explanation;
}

/// A gradient that is expanded, of a result with a dim of one element.
TEST(InnerResultsOfOne, anExpandedGradient) {
  const Tensor weight = torch::randn({4, 1}).requires_grad_();
  const auto code = [weight](const Tensor &x) { return x.flatten(0, 1).matmul(weight); };
  auto fast = graphopt::compile(code);
  for (int step = 0; step < 5; ++step) {
    const Tensor want = torch::autograd::grad({code(input(step)).sum()}, {weight})[0];
    EXPECT_TRUE(sameBits(want, torch::autograd::grad({fast(input(step)).sum()}, {weight})[0])) << step;
    const Tensor other = torch::autograd::grad({code(input(step)).expand({15, 3}).pow(2).sum()}, {weight})[0];
    EXPECT_TRUE(
        sameBits(other, torch::autograd::grad({fast(input(step)).expand({15, 3}).pow(2).sum()}, {weight})[0]))
        << step;
  }
  EXPECT_GT(fast.explain().compiledRuns, 0u);
}

/// Its gradient comes expanded, then not, then transposed: laid out as the plan has it each time.
TEST(InnerResultsOfWriters, gradientsThatLieInOtherWays) {
  Tensors values[2];
  graphopt::Explanation explanation;
  for (bool compiled : {false, true}) {
    torch::manual_seed(3);
    auto model = std::make_shared<torch::nn::BatchNorm1d>(6);
    auto fast = graphopt::compile(*model);
    for (int step = 0; step < 12; ++step) {
      const Tensor x = input(step).flatten(0, 1).matmul(torch::ones({4, 6}));
      const Tensor y = compiled ? fast(x) : (*model)(x);
      if (step / 2 % 3 == 0)
        y.sum().backward();
      else if (step / 2 % 3 == 1)
        y.pow(2).sum().backward();
      else
        y.backward(torch::arange(90, torch::kFloat).view({6, 15}).t());
      for (const Tensor &gradient : gradientsOf(**model))
        values[compiled].push_back(gradient.clone());
      zeroGradients(**model);
    }
    explanation = fast.explain();
  }
  for (size_t i = 0; i < values[0].size(); ++i)
    EXPECT_TRUE(at::allclose(values[0][i], values[1][i])) << "value " << i << "\n" << explanation;
  EXPECT_GE(explanation.compiledRuns, 9u) << explanation;
}

} // namespace
