// Random numbers that a backward draws again, from the state of the generator that the forward found: masks
// of dropout under CompileOptions::recompute, and operators that are run once more for their gradients.
#include "same_bits.h"

#include <graphopt/graphopt.h>

#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <thread>

namespace {

using at::Tensor;
using graphopt::test::sameBits;
using Tensors = std::vector<Tensor>;

/// Draws, and looks at data, so that it cannot be taken apart.
Tensor noisy(const Tensor &x) {
  const Tensor noise = torch::rand_like(x);
  return x.max().item<float>() > 100 ? x : (x * noise).exp();
}

/// The same as one autograd node of its own.
struct NoisyFunction : torch::autograd::Function<NoisyFunction> {
  static Tensor forward(torch::autograd::AutogradContext *context, const Tensor &x) {
    const Tensor noise = torch::rand_like(x) * (x.max().item<float>() > 100 ? 0 : 1);
    context->save_for_backward({noise});
    return x * noise;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext *context,
                                               torch::autograd::tensor_list gradients) {
    return {gradients[0] * context->get_saved_variables()[0]};
  }
};
Tensor noisyNode(const Tensor &x) { return NoisyFunction::apply(x); }

/// Its gradient lies otherwise than a plan first counts on.
Tensor noisyTurned(const Tensor &x) { return noisy(x.t()).t() + 1; }

/// Draws in the backward: numbers of then.
struct NoisyGradient : torch::autograd::Function<NoisyGradient> {
  static Tensor forward(torch::autograd::AutogradContext *, const Tensor &x) {
    return x.max().item<float>() > 100 ? x : x * 2;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext *,
                                               torch::autograd::tensor_list gradients) {
    return {gradients[0] + torch::rand_like(gradients[0])};
  }
};
Tensor noisyGradient(const Tensor &x) { return NoisyGradient::apply(x); }

TORCH_LIBRARY(graphopt_recompute, library) {
  const std::vector<at::Tag> pure = {at::Tag::pt2_compliant_tag};
  const std::vector<at::Tag> draws = {at::Tag::pt2_compliant_tag, at::Tag::nondeterministic_seeded};
  library.def("noisy(Tensor x) -> Tensor", draws);
  library.impl("noisy", c10::DispatchKey::Autograd, &noisy);
  library.def("noisy_untagged(Tensor x) -> Tensor", pure);
  library.impl("noisy_untagged", c10::DispatchKey::Autograd, &noisy);
  library.def("noisy_turned(Tensor x) -> Tensor", pure);
  library.impl("noisy_turned", c10::DispatchKey::Autograd, &noisyTurned);
  library.def("noisy_gradient(Tensor x) -> Tensor", pure);
  library.impl("noisy_gradient", c10::DispatchKey::Autograd, &noisyGradient);
  library.def("noisy_node(Tensor x) -> Tensor", draws);
  library.impl("noisy_node", c10::DispatchKey::Autograd, &noisyNode);
}

Tensor callCustom(const char *name, const Tensor &x) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Tensor(const Tensor &)>().call(x);
}

/// Draws of several kinds, of sizes above the 5,056 bytes of a state and below.
struct Net : torch::nn::Module {
  torch::nn::Linear first{nullptr}, second{nullptr};
  Net() {
    first = register_module("first", torch::nn::Linear(64, 64));
    second = register_module("second", torch::nn::Linear(64, 8));
  }
  Tensor forward(const Tensor &x) {
    Tensor h = torch::dropout(torch::gelu(first(x)), 0.3, is_training());
    h = torch::feature_dropout(h.unsqueeze(-1), 0.2, is_training()).squeeze(-1);
    h = torch::alpha_dropout(h * torch::rand_like(h), 0.1, is_training());
    h = torch::rrelu(h, 0.1, 0.3, is_training());
    return torch::dropout(second(h), 0.5, is_training());
  }
};

void expectSameBits(const Tensors &eager, const Tensors &got) {
  ASSERT_EQ(eager.size(), got.size());
  for (size_t i = 0; i < eager.size(); ++i)
    EXPECT_TRUE(sameBits(eager[i], got[i])) << "value " << i << "\n" << eager[i] << "\n" << got[i];
}

using Forward = std::function<Tensor(const Tensor &)>;
using Program = std::function<Tensors(const Forward &forward, Net &net)>;

Tensor input(int64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
  return torch::randn({40, 64}, generator);
}

struct Outcome {
  Tensors values;
  graphopt::Explanation explanation;
};

Outcome runProgram(const Program &program, bool compiled) {
  torch::manual_seed(3);
  auto net = std::make_shared<Net>();
  if (!compiled) {
    torch::manual_seed(5);
    return {program([net](const Tensor &x) { return net->forward(x); }, *net), {}};
  }
  auto fast = graphopt::compile(net, {.strict = true, .recompute = true});
  for (int i = 0; i < 3; ++i)
    fast(input(0)).sum().backward();
  net->zero_grad();
  torch::manual_seed(5);
  Tensors values = program([fast](const Tensor &x) { return fast(x); }, *net);
  return {std::move(values), fast.explain()};
}

void expectAsEager(const Program &program) {
  const Outcome eager = runProgram(program, false), compiled = runProgram(program, true);
  expectSameBits(eager.values, compiled.values);
  EXPECT_GE(compiled.explanation.compiledRuns, 1u) << compiled.explanation;
  EXPECT_EQ(compiled.explanation.backwardsAgain, 0u) << compiled.explanation;
  EXPECT_TRUE(compiled.explanation.notCompiled.empty()) << compiled.explanation;
}

void addGradients(Tensors &values, const Net &net) {
  for (const Tensor &parameter : net.parameters())
    values.push_back(parameter.grad().clone());
}

TEST(Recompute, masksAreDrawnAgain) {
  expectAsEager([](const Forward &forward, Net &net) {
    Tensors values = {forward(input(1))};
    values.back().sum().backward();
    addGradients(values, net);
    return values;
  });
}

TEST(Recompute, drawsOfTheProgramGoOnAsInEager) {
  expectAsEager([](const Forward &forward, Net &net) {
    const Tensor y = forward(input(1));
    Tensors values = {torch::rand({3}), torch::randn({3})};
    y.sum().backward();
    values.push_back(torch::rand({3}));
    values.push_back(torch::randn({3})); // a normal sample is kept back in the generator: that too
    addGradients(values, net);
    return values;
  });
}

TEST(Recompute, twoForwardsBeforeTheirBackwards) {
  expectAsEager([](const Forward &forward, Net &net) {
    const Tensor first = forward(input(1)), second = forward(input(2));
    first.sum().backward();
    second.sum().backward();
    Tensors values = {first, second};
    addGradients(values, net);
    return values;
  });
}

TEST(Recompute, twiceWithRetainGraph) {
  expectAsEager([](const Forward &forward, Net &net) {
    const Tensor y = forward(input(1)).sum();
    y.backward({}, /*retain_graph=*/true);
    torch::rand({7});
    y.backward();
    Tensors values = {torch::rand({3})};
    addGradients(values, net);
    return values;
  });
}

/// Bytes that allocators gave out and did not get back, on this thread, while it lives.
class BytesHeld {
public:
  BytesHeld() : counter_(std::make_shared<Counter>()), guard_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}
  int64_t now() const { return counter_->bytes; }
  int64_t highest() const { return counter_->highest; }

private:
  struct Counter : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void *, int64_t size, size_t, size_t, c10::Device) override {
      bytes += size;
      highest = std::max(highest, bytes);
    }
    bool memoryProfilingEnabled() const override { return true; }
    int64_t bytes = 0, highest = 0;
  };
  std::shared_ptr<Counter> counter_;
  c10::DebugInfoGuard guard_;
};

int64_t bytesFromForwardToBackward(bool recompute) {
  auto net = std::make_shared<Net>();
  auto fast = graphopt::compile(net, {.strict = true, .recompute = recompute});
  const Tensor x = input(1);
  for (int i = 0; i < 3; ++i)
    fast(x).sum().backward();
  const BytesHeld held;
  const Tensor y = fast(x);
  return held.now();
}

TEST(Recompute, keepsLess) {
  const int64_t all = bytesFromForwardToBackward(false), some = bytesFromForwardToBackward(true);
  // Of 40 x 64 numbers each, at least: two masks of dropout and one of alpha_dropout, the noise of rand_like.
  EXPECT_LE(some, all - 4 * (40 * 64 * 4 - 5056)) << all;
  EXPECT_GT(some, 0);
}

/// A chain of layers, each of which leaves a mask and activations: made again where they are read, few of
/// them are there at a time.
TEST(Recompute, keepsThePeakLow) {
  const auto peak = [](bool recompute) {
    const Tensor weight = torch::eye(256).requires_grad_();
    const auto program = [weight](const Tensor &x) {
      Tensor h = x;
      for (int i = 0; i < 12; ++i)
        h = torch::dropout(torch::gelu(h.matmul(weight)), 0.1, true).tanh();
      return h.sum();
    };
    auto fast = graphopt::compile(program, {.strict = true, .recompute = recompute});
    const Tensor x = torch::ones({256, 256});
    for (int i = 0; i < 3; ++i)
      fast(x).backward();
    const BytesHeld held;
    fast(x).backward();
    return held.highest();
  };
  EXPECT_LE(peak(true) * 10, peak(false) * 7);
}

class DrawsInside : public testing::TestWithParam<const char *> {};

TEST_P(DrawsInside, AnOperatorRunAgainDrawsTheSame) {
  const auto run = [](bool compiled) {
    const Tensor weight = torch::ones({6}).requires_grad_();
    const auto program = [weight](const Tensor &x) {
      return (callCustom(GetParam(), x * weight) * 2 + weight).sum();
    };
    auto fast = graphopt::compile(program, {.disable = !compiled, .strict = true});
    torch::manual_seed(11);
    Tensors values;
    for (int i = 0; i < 5; ++i) {
      const Tensor loss = fast(torch::arange(12.0f).reshape({2, 6}) / 10);
      values.push_back(torch::rand({2}));
      loss.backward();
      values.insert(values.end(), {loss, weight.grad().clone(), torch::rand({2})});
    }
    return std::pair(values, fast.explain());
  };
  const auto [eager, nothing] = run(false);
  const auto [got, explanation] = run(true);
  expectSameBits(eager, got);
  EXPECT_GE(explanation.compiledRuns, 1u) << explanation;
  EXPECT_TRUE(explanation.notCompiled.empty()) << explanation;
  EXPECT_FALSE(explanation.opaque.empty()) << explanation;
}

INSTANTIATE_TEST_SUITE_P(Operators, DrawsInside,
                         testing::Values("graphopt_recompute::noisy", "graphopt_recompute::noisy_untagged",
                                         "graphopt_recompute::noisy_turned",
                                         "graphopt_recompute::noisy_gradient",
                                         "graphopt_recompute::noisy_node"));

TEST(Recompute, aGraphOfTheGradientsDrawsTheSame) {
  const auto run = [](bool compiled) {
    const Tensor weight = torch::full({6}, 0.5f).requires_grad_();
    const auto program = [weight](const Tensor &x) {
      return callCustom("graphopt_recompute::noisy_untagged", x * weight).sum();
    };
    auto fast = graphopt::compile(program, {.disable = !compiled, .strict = true});
    Tensors values;
    torch::manual_seed(13);
    for (int i = 0; i < 4; ++i) {
      const Tensor y = fast(torch::arange(12.0f).reshape({2, 6}) / 10);
      torch::rand({3});
      const Tensor first = torch::autograd::grad({y}, {weight}, {}, true, /*create_graph=*/true)[0];
      values.insert(values.end(), {y.detach(), first.detach(), torch::rand({2}),
                                   torch::autograd::grad({first.sum()}, {weight})[0]});
    }
    return values;
  };
  const Tensors eager = run(false), got = run(true);
  expectSameBits(eager, got);
}

/// Each thread's masks are those that its forward drew, whoever else draws again.
TEST(Recompute, onSeveralThreads) {
  auto net = std::make_shared<Net>();
  auto fast = graphopt::compile(net, {.strict = true, .recompute = true});
  for (int i = 0; i < 3; ++i)
    fast(input(0)).sum().backward();
  // The gradient of the input shows the masks: where it is 0 in one backward, it is in the other.
  std::vector<std::pair<Tensor, Tensor>> outputs;
  for (int i = 0; i < 8; ++i) {
    const Tensor x = input(i).requires_grad_();
    for (int warm = 0; warm < 2; ++warm)
      fast(input(i).requires_grad_()).sum().backward();
    outputs.emplace_back(x, fast(x).sum());
  }
  Tensors expected(outputs.size()), got(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i)
    expected[i] = torch::autograd::grad({outputs[i].second}, {outputs[i].first}, {}, true)[0];
  std::vector<std::thread> threads;
  for (size_t i = 0; i < outputs.size(); ++i)
    threads.emplace_back([&, i] {
      for (int turn = 0; turn < 20; ++turn)
        got[i] = torch::autograd::grad({outputs[i].second}, {outputs[i].first}, {}, true)[0];
    });
  for (std::thread &thread : threads)
    thread.join();
  for (size_t i = 0; i < outputs.size(); ++i)
    EXPECT_TRUE(sameBits(expected[i], got[i])) << i;
}

/// Autograd keeps the result of relu and exp, not what they were computed from, which may be written then.
TEST(Recompute, whatAutogradDoesNotSaveMayBeWrittenBeforeTheBackward) {
  const auto run = [](bool compiled) {
    const Tensor weight = torch::linspace(-1, 1, 2048).requires_grad_();
    const auto program = [weight](const Tensor &x) {
      const Tensor shown = x * 2;
      return std::tuple((weight.exp() * x.relu()).sum() + shown.exp().tanh().sum(), shown);
    };
    auto fast = graphopt::compile(program, {.disable = !compiled, .strict = true, .recompute = true});
    Tensors values;
    for (int i = 0; i < 5; ++i) {
      const Tensor x = torch::linspace(-2, 2, 2048).requires_grad_();
      const auto [y, shown] = fast(x);
      shown.detach().zero_();
      {
        const at::NoGradGuard noGrad;
        weight.add_(0.25);
      }
      y.backward();
      values.insert(values.end(), {y.detach(), x.grad(), weight.grad().clone()});
    }
    return values;
  };
  const Tensors eager = run(false), got = run(true);
  expectSameBits(eager, got);
}

/// Nor are views of such memory what it is computed from.
TEST(Recompute, ABufferIsWrittenInTheSameCall) {
  const auto run = [](bool compiled) {
    const Tensor position = torch::linspace(0, 1, 4096), weight = torch::ones({4096}).requires_grad_();
    const auto program = [position, weight](const Tensor &x) mutable {
      const Tensor row = position.unsqueeze(0);
      const Tensor y = row.cos() * x * weight + row.sin() * weight * 2, shown = x * weight;
      const Tensor flat = shown.view({-1});
      position.add_(0.5);
      return std::tuple(y.sum() + (flat.exp() + flat.sigmoid() + flat.tanh()).sum(), shown);
    };
    auto fast = graphopt::compile(program, {.disable = !compiled, .strict = true, .recompute = true});
    Tensors values;
    for (int i = 0; i < 5; ++i) {
      const Tensor x = torch::linspace(-1, 1, 4096).unsqueeze(0);
      const auto [y, shown] = fast(x);
      shown.detach().add_(1);
      y.backward();
      values.insert(values.end(), {y.detach(), weight.grad().clone(), position.clone()});
    }
    return values;
  };
  const Tensors eager = run(false), got = run(true);
  expectSameBits(eager, got);
}

TEST(Recompute, ForManySizes) {
  const auto run = [](bool compiled) {
    torch::manual_seed(3);
    auto net = std::make_shared<Net>();
    auto fast = graphopt::compile(net, {.disable = !compiled, .strict = true, .recompute = true});
    Tensors values;
    for (const int64_t rows : {40, 40, 41, 44, 43, 47, 40, 52, 45, 41, 42, 46, 44, 51, 48}) {
      net->zero_grad();
      const Tensor y = fast(input(1).repeat({2, 1}).slice(0, 0, rows));
      y.sum().backward();
      values.push_back(y.detach());
      addGradients(values, *net);
    }
    return std::pair(values, fast.explain());
  };
  const auto [eager, nothing] = run(false);
  const auto [got, explanation] = run(true);
  expectSameBits(eager, got);
  EXPECT_GE(explanation.compiledRuns, 9u) << explanation;
}

} // namespace
