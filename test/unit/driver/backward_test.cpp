// Segments with gradients run as plans behind one autograd node: whatever a program does with autograd around
// them gives what eager gives, or an error that says what to do.
#include "same_bits.h"

#include <graphopt/graphopt.h>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <thread>

namespace {

using at::Tensor;
using graphopt::test::sameBits;
using Tensors = std::vector<Tensor>;

/// A small network with a parameter used twice, a branch that dies, and an integer result inside.
struct Net : torch::nn::Module {
  torch::nn::Linear first{nullptr}, second{nullptr};
  Tensor unused;
  Net() {
    first = register_module("first", torch::nn::Linear(6, 6));
    second = register_module("second", torch::nn::Linear(6, 3));
    unused = register_parameter("unused", torch::ones({2}));
  }
  Tensor forward(const Tensor &x) {
    const Tensor h = torch::gelu(first(x));
    const Tensor best = h.argmax(1, /*keepdim=*/true);
    return second(torch::tanh(first(h)) + h.gather(1, best));
  }
};

using Forward = std::function<Tensor(const Tensor &)>;
/// Uses `forward` as a program would, and gives what there is to compare.
using Program = std::function<Tensors(const Forward &forward, Net &net)>;

struct Outcome {
  Tensors values;
  graphopt::Explanation explanation;
};

enum class Inputs { Plain, WithGradients };

Outcome runProgram(const Program &program, bool compiled, Inputs inputs) {
  torch::manual_seed(3);
  auto net = std::make_shared<Net>();
  if (!compiled)
    return {program([net](const Tensor &x) { return net->forward(x); }, *net), {}};
  auto fast = graphopt::compile(net);
  // The first calls record and verify; what the program does is done with compiled segments.
  for (int i = 0; i < 3; ++i)
    fast(torch::ones({4, 6}).requires_grad_(inputs == Inputs::WithGradients));
  Tensors values = program([fast](const Tensor &x) { return fast(x); }, *net);
  return {std::move(values), fast.explain()};
}

/// Both ways, with the same bits; the compiled one through compiled segments.
void expectAsEager(const Program &program, Inputs inputs = Inputs::Plain) {
  const Outcome eager = runProgram(program, false, inputs), compiled = runProgram(program, true, inputs);
  ASSERT_EQ(eager.values.size(), compiled.values.size());
  for (size_t i = 0; i < eager.values.size(); ++i)
    EXPECT_TRUE(sameBits(eager.values[i], compiled.values[i])) << "value " << i << "\n"
                                                               << compiled.explanation;
  EXPECT_GT(compiled.explanation.compiledRuns, 0u) << compiled.explanation;
  EXPECT_TRUE(compiled.explanation.notCompiled.empty()) << compiled.explanation;
}

Tensor input(int64_t seed = 0) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
  return torch::randn({4, 6}, generator);
}

Tensors gradientsOf(Net &net) {
  Tensors gradients;
  for (const Tensor &parameter : net.parameters())
    gradients.push_back(parameter.grad());
  return gradients;
}

std::string errorOf(const std::function<void()> &code) {
  try {
    code();
  } catch (const std::exception &error) {
    return error.what();
  }
  return "";
}

TEST(Backward, givesEagersGradients) {
  expectAsEager([](const Forward &forward, Net &net) {
    const Tensor y = forward(input());
    y.pow(2).sum().backward();
    Tensors all = gradientsOf(net);
    all.push_back(y.detach());
    return all;
  });
}

TEST(Backward, ofInputsAndOfInputsWithAPast) {
  expectAsEager(
      [](const Forward &forward, Net &) {
        const Tensor x = input().requires_grad_(), before = x * 2;
        forward(before).sum().backward();
        return Tensors{x.grad()};
      },
      Inputs::WithGradients);
}

TEST(Backward, accumulatesIntoGradientsThatAreThere) {
  expectAsEager([](const Forward &forward, Net &net) {
    for (int i = 0; i < 3; ++i)
      forward(input(i)).pow(2).mean().backward();
    return gradientsOf(net);
  });
}

/// Autograd adds the contributions of four uses one by one; a node gives the sum of the two in its segment.
TEST(Backward, aSecondForwardBeforeTheFirstBackward) {
  const Program program = [](const Forward &forward, Net &net) {
    const Tensor a = forward(input(1)), b = forward(input(2));
    (a.sum() + b.pow(2).sum()).backward();
    return Tensors{net.second->weight.grad(), net.second->bias.grad(), net.first->weight.grad()};
  };
  const Outcome eager = runProgram(program, false, Inputs::Plain),
                compiled = runProgram(program, true, Inputs::Plain);
  EXPECT_TRUE(sameBits(eager.values[0], compiled.values[0])); // used once in a segment
  EXPECT_TRUE(sameBits(eager.values[1], compiled.values[1]));
  EXPECT_TRUE(sameBits(eager.values[2], compiled.values[2])); // twice: autograd's engine adds one by one
  EXPECT_GT(compiled.explanation.compiledRuns, 0u);
}

/// Of what is used many times in a segment and in others too, each segment gives a sum.
TEST(Backward, aWeightOfALoopInTwoSegments) {
  Tensors gradients;
  for (bool compiled : {false, true}) {
    torch::manual_seed(5);
    const Tensor weight = torch::randn({6, 6}).requires_grad_();
    const auto loop = [weight](Tensor h) {
      for (int step = 0; step < 6; ++step)
        h = torch::tanh(h.matmul(weight));
      return h;
    };
    auto fast = graphopt::compile(loop);
    for (int i = 0; i < 4; ++i) {
      weight.mutable_grad() = Tensor();
      const Tensor a = compiled ? fast(input(1)) : loop(input(1)),
                   b = compiled ? fast(input(2)) : loop(input(2));
      (a.sum() + b.pow(2).sum()).backward();
    }
    gradients.push_back(weight.grad());
    EXPECT_EQ(fast.explain().compiledRuns > 0, compiled);
  }
  EXPECT_TRUE(at::allclose(gradients[0], gradients[1], 1e-5, 1e-6));
}

/// The caller's own use of an argument comes before those of the segment.
TEST(Backward, anArgumentThatIsUsedBesideTheSegmentToo) {
  expectAsEager(
      [](const Forward &forward, Net &net) {
        const Tensor x = input(1).requires_grad_(), before = x.exp();
        const Tensor y = forward(before);
        (y.pow(2).sum() + (before * 3).tanh().sum()).backward();
        return Tensors{x.grad(), net.first->weight.grad()};
      },
      Inputs::WithGradients);
}

/// `to` gives its operand back when there is nothing to change: no second result.
TEST(Backward, aResultThatAnOperatorGaveBack) {
  torch::manual_seed(5);
  const Tensor w = torch::randn({6, 6}).requires_grad_(), other = w.detach().clone().requires_grad_();
  const auto forward = [](const Tensor &x, const Tensor &w) {
    return torch::tanh(x.matmul(w)).to(torch::kFloat);
  };
  auto fast = graphopt::compile(forward);
  for (int i = 0; i < 5; ++i) {
    forward(input(i), w).pow(2).sum().backward();
    fast(input(i), other).pow(2).sum().backward();
  }
  EXPECT_TRUE(sameBits(w.grad(), other.grad()));
  EXPECT_GT(fast.explain().compiledRuns, 0u) << fast.explain();
  EXPECT_TRUE(fast.explain().notCompiled.empty()) << fast.explain();
}

TEST(Backward, twiceWithRetainGraph) {
  expectAsEager([](const Forward &forward, Net &net) {
    const Tensor loss = forward(input()).pow(2).sum();
    loss.backward({}, /*retain_graph=*/true);
    loss.backward();
    return gradientsOf(net);
  });
}

TEST(Backward, hooksOnResultsAndParametersRun) {
  expectAsEager([](const Forward &forward, Net &net) {
    const Tensor y = forward(input());
    Tensors seen;
    y.register_hook([&](const Tensor &g) {
      seen.push_back(g.clone());
      return g * 3;
    });
    net.second->weight.register_hook([&](const Tensor &g) { seen.push_back(g.clone()); });
    y.retain_grad();
    y.sum().backward();
    seen.push_back(y.grad());
    Tensors all = gradientsOf(net);
    all.insert(all.end(), seen.begin(), seen.end());
    return all;
  });
}

TEST(Backward, cotangentsOfOtherLayouts) {
  expectAsEager([](const Forward &forward, Net &net) {
    const Tensor y = forward(input());
    y.backward(torch::arange(12, torch::kFloat).view({3, 4}).t() / 7);
    forward(input(1)).sum().backward(); // expanded: strides of 0
    return gradientsOf(net);
  });
}

TEST(Backward, cotangentsWithGaps) {
  expectAsEager([](const Forward &forward, Net &net) {
    Tensors all;
    for (int64_t i = 0; i < 4; ++i) {
      at::cat({forward(input(i)), input(9)}, 1).pow(2).sum().backward();
      for (const Tensor &gradient : gradientsOf(net))
        all.push_back(gradient.defined() ? gradient.clone() : gradient);
    }
    return all;
  });
}

/// Chains of nodes are taken down as autograd's are: one after the other.
TEST(Backward, aLongChainThatNobodyRunsBackward) {
  auto fast = graphopt::compile([](Tensor x) { return (x * 1.5).tanh(); });
  Tensor x = torch::ones({2}).requires_grad_();
  Tensor h = x;
  for (int i = 0; i < 100000; ++i)
    h = fast(h);
  EXPECT_GT(fast.explain().compiledRuns, 90000u);
  h = Tensor();
}

TEST(Backward, onAnotherThread) {
  expectAsEager([](const Forward &forward, Net &net) {
    const Tensor loss = forward(input()).pow(2).sum();
    std::thread([&] { loss.backward(); }).join();
    return gradientsOf(net);
  });
}

TEST(Backward, aResultWrittenAfterwards) {
  expectAsEager([](const Forward &forward, Net &net) {
    Tensor y = forward(input());
    y.mul_(2).add_(1);
    y.pow(2).sum().backward();
    return gradientsOf(net);
  });
}

TEST(Backward, throughAutogradGrad) {
  expectAsEager(
      [](const Forward &forward, Net &net) {
        const Tensor x = input().requires_grad_();
        return torch::autograd::grad({forward(x).sum()}, {x, net.first->weight, net.unused}, {}, false, false,
                                     /*allow_unused=*/true);
      },
      Inputs::WithGradients);
}

/// Without a cotangent for one result, what only that one depends on has no gradient, and not one of zeros.
TEST(Backward, undefinedCotangents) {
  for (bool both : {false, true}) {
    Tensors eager, compiled;
    for (Tensors *out : {&eager, &compiled}) {
      torch::manual_seed(1);
      const Tensor a = torch::randn({3}).requires_grad_(), b = torch::randn({3}).requires_grad_();
      auto code = [](const Tensor &x, const Tensor &y) {
        return std::pair<Tensor, Tensor>(x.exp(), y.sin());
      };
      auto fast = graphopt::compile(code);
      for (int i = 0; i < 3; ++i)
        fast(a, b);
      const auto [x, y] = out == &eager ? code(a, b) : fast(a, b);
      *out = torch::autograd::grad({both ? x.sum() + y.sum() : x.sum()}, {a, b}, {}, false, false, true);
      if (out == &compiled) {
        EXPECT_GT(fast.explain().compiledRuns, 0u) << fast.explain();
      }
    }
    EXPECT_TRUE(sameBits(eager[0], compiled[0]) && sameBits(eager[1], compiled[1])) << both;
  }
}

/// What operators are made of depends on the process's switches: one compile does not serve another setting.
TEST(Backward, switchesOfAttention) {
  at::Context &context = at::globalContext();
  const bool before = context.userEnabledFlashSDP();
  const Tensor x = torch::randn({1, 2, 16, 8}).requires_grad_();
  auto code = [](const Tensor &t) { return torch::scaled_dot_product_attention(t, t, t).sin().sum(); };
  auto fast = graphopt::compile(code);
  for (bool flash : {true, false, true}) {
    context.setSDPUseFlash(flash);
    for (int i = 0; i < 5; ++i)
      EXPECT_TRUE(
          sameBits(torch::autograd::grad({fast(x)}, {x})[0], torch::autograd::grad({code(x)}, {x})[0]))
          << flash << " " << i;
  }
  context.setSDPUseFlash(before);
  EXPECT_EQ(fast.explain().compiledSegments, 2u) << fast.explain();
}

TEST(Backward, frozenParametersGetNothing) {
  expectAsEager([](const Forward &forward, Net &net) {
    net.first->weight.requires_grad_(false);
    for (int i = 0; i < 4; ++i)
      forward(input(i)).sum().backward();
    return gradientsOf(net);
  });
}

TEST(Backward, trainsAsEagerDoes) {
  expectAsEager([](const Forward &forward, Net &net) {
    torch::optim::AdamW optimizer(net.parameters(), torch::optim::AdamWOptions(1e-2));
    for (int i = 0; i < 20; ++i) {
      optimizer.zero_grad();
      forward(input(i)).pow(2).mean().backward();
      torch::nn::utils::clip_grad_norm_(net.parameters(), 0.5);
      optimizer.step();
    }
    return net.parameters();
  });
}

// ---- errors

class Compiled : public testing::Test {
protected:
  void SetUp() override {
    torch::manual_seed(3);
    for (int i = 0; i < 3; ++i)
      fast(torch::ones({4, 6}));
  }
  void expectCompiled() { EXPECT_GT(fast.explain().compiledRuns, 0u) << fast.explain(); }
  std::shared_ptr<Net> net = std::make_shared<Net>();
  decltype(graphopt::compile(net)) fast = graphopt::compile(net);
};

TEST_F(Compiled, aFreedGraphIsSaid) {
  const Tensor loss = fast(input()).sum();
  loss.backward();
  const std::string error = errorOf([&] { loss.backward(); });
  EXPECT_NE(error.find("backward through the graph a second time"), std::string::npos) << error;
  expectCompiled();
}

TEST(Backward, createGraphRunsTheSegmentAgain) {
  expectAsEager(
      [](const Forward &forward, Net &net) {
        const Tensor x = input().requires_grad_();
        const Tensor slope =
            torch::autograd::grad({forward(x).sum()}, {x}, {}, true, /*create_graph=*/true)[0];
        slope.pow(2).sum().backward();
        Tensors all = gradientsOf(net);
        all.push_back(slope.detach());
        return all;
      },
      Inputs::WithGradients);
}

TEST(Backward, createGraphOfASegmentThatWritesIsRefusedWithTheReason) {
  torch::nn::BatchNorm1d norm(3);
  auto fast = graphopt::compile([norm](const Tensor &x) mutable { return norm(x).sum(); });
  const Tensor x = torch::randn({5, 3}).requires_grad_();
  for (int i = 0; i < 3; ++i)
    fast(x);
  const std::string error =
      errorOf([&] { torch::autograd::grad({fast(x)}, {x}, {}, true, /*create_graph=*/true); });
  EXPECT_GT(fast.explain().compiledRuns, 0u) << fast.explain();
  EXPECT_NE(error.find("create_graph"), std::string::npos) << error;
  EXPECT_NE(error.find("compileBackward = false"), std::string::npos) << error;
}

TEST_F(Compiled, aParameterWrittenBeforeTheBackwardIsSaid) {
  const Tensor loss = fast(input()).pow(2).sum();
  {
    at::NoGradGuard noGrad;
    net->second->weight.mul_(2);
  }
  const std::string error = errorOf([&] { loss.backward(); });
  EXPECT_NE(error.find("modified by an inplace operation"), std::string::npos) << error;
  expectCompiled();
}

TEST_F(Compiled, anExceptionInTheBackwardPassesThrough) {
  const Tensor y = fast(input());
  y.register_hook([](const Tensor &) -> Tensor { throw std::runtime_error("the hook says no"); });
  EXPECT_NE(errorOf([&] { y.sum().backward(); }).find("the hook says no"), std::string::npos);
  fast(input()).sum().backward(); // and the next one is fine
  EXPECT_TRUE(net->first->weight.grad().defined());
  expectCompiled();
}

TEST_F(Compiled, asksForNothingWithoutGradients) {
  const uint64_t before = fast.explain().compiledRuns;
  at::NoGradGuard noGrad;
  for (int i = 0; i < 3; ++i)
    EXPECT_FALSE(fast(input()).requires_grad());
  EXPECT_EQ(fast.explain().compiledRuns, before);
}

TEST(Backward, mayBeLeftToAutograd) {
  auto net = std::make_shared<Net>();
  auto fast = graphopt::compile(net, {.compileBackward = false});
  for (int i = 0; i < 4; ++i)
    fast(input()).sum().backward();
  EXPECT_EQ(fast.explain().compiledSegments, 0u);
}

} // namespace
