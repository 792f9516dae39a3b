// Operators that cannot be taken apart, in compiled segments, and others whose derivative has a rule by hand:
// the backward decides by the data of each call, so each call's data has to be looked at, not the recorded
// one's.
#include "same_bits.h"

#include <graphopt/graphopt.h>

#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <functional>

namespace {

using at::Tensor;
using graphopt::test::sameBits;
using Function = std::function<Tensor(const Tensor &)>;

struct Case {
  const char *name;
  Function function;
  bool isByHand = false;
};

/// A parameter before the operator and arithmetic after it, so that it stands in the middle of a segment.
struct Around : torch::nn::Module {
  Tensor weight;
  Function function;
  explicit Around(Function function) : function(std::move(function)) {
    weight = register_parameter("weight", torch::full({6}, 0.5));
  }
  Tensor forward(const Tensor &x) {
    const Tensor y = function(x * weight);
    return (y * 2 + weight.sum()).sum();
  }
};

/// No zero, one, two in a row; equal numbers; NaN.
std::vector<Tensor> inputs() {
  std::vector<Tensor> all;
  for (int i = 0; i < 7; ++i) {
    at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(i));
    all.push_back(torch::randn({3, 6}, generator));
  }
  all[3][1][2] = 0;
  all[4][1].slice(0, 2, 4).zero_();
  all[5].fill_(1.5);
  all[6][0][0] = NAN;
  return all;
}

std::vector<Tensor> gradients(const Function &forward, Tensor &weight) {
  std::vector<Tensor> found;
  for (const Tensor &x : inputs()) {
    weight.mutable_grad() = Tensor();
    const Tensor loss = forward(x);
    loss.backward();
    found.push_back(loss.detach());
    found.push_back(weight.grad());
  }
  return found;
}

class Opaque : public testing::TestWithParam<Case> {};

TEST_P(Opaque, ACompiledSegmentGivesEagersGradients) {
  Around eager(GetParam().function);
  const std::vector<Tensor> expected =
      gradients([&](const Tensor &x) { return eager.forward(x); }, eager.weight);
  const auto net = std::make_shared<Around>(GetParam().function);
  auto fast = graphopt::compile(net);
  for (int i = 0; i < 3; ++i)
    fast(inputs()[0]);
  const std::vector<Tensor> got = gradients([&](const Tensor &x) { return fast(x); }, net->weight);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(sameBits(expected[i], got[i])) << "value " << i << "\n" << expected[i] << "\n" << got[i];
  const graphopt::Explanation explanation = fast.explain();
  EXPECT_GE(explanation.compiledRuns, 7u) << explanation;
  EXPECT_TRUE(explanation.notCompiled.empty()) << explanation;
  EXPECT_EQ(explanation.opaque.empty(), GetParam().isByHand)
      << explanation; // what was not taken apart is said
}

INSTANTIATE_TEST_SUITE_P(
    Operators, Opaque,
    testing::Values(
        Case{"prod", [](const Tensor &x) { return x.prod(); }, true},
        Case{"prod_dim", [](const Tensor &x) { return x.prod(1); }, true},
        Case{"prod_twice", [](const Tensor &x) { return x.prod(1) + x.prod(0).sum(); }, true},
        Case{"prod_transposed", [](const Tensor &x) { return x.t().prod(0); }},
        Case{"cumprod", [](const Tensor &x) { return x.cumprod(1); }, true},
        Case{"cumprod_transposed", [](const Tensor &x) { return x.t().cumprod(0).t(); }, true},
        Case{"cumprod_then_prod", [](const Tensor &x) { return x.cumprod(1).tanh().prod(0); }, true},
        Case{"max", [](const Tensor &x) { return x.max(); }, true},
        Case{"min", [](const Tensor &x) { return x.min(); }, true},
        Case{"max_used_twice",
             [](const Tensor &x) {
               const Tensor y = x * 2;
               return y.max() + y.sum() * y.min();
             },
             true},
        Case{"median", [](const Tensor &x) { return x.median(); }, true},
        Case{"as_strided", [](const Tensor &x) { return x.as_strided({2, 6}, {3, 1}, 1); }},
        Case{"values_through_a_mask", [](const Tensor &x) { return x.index_put({x > 0}, x.sum()); }},
        Case{"quantile", [](const Tensor &x) { return x.quantile(0.5, 1); }},
        Case{"opaque_then_opaque",
             [](const Tensor &x) { return x.index_put({x > 0}, x.sum()).t().prod(1); }}),
    [](const testing::TestParamInfo<Case> &info) { return std::string(info.param.name); });

/// Looks at data, so it is not taken apart: a gradient of the first operand that lies otherwise than it does,
/// and none of the second.
Tensor turned(const Tensor &x, const Tensor &) { return x.sum().item<float>() > 1e9 ? x.t() : x.t().exp(); }

TORCH_LIBRARY(graphopt_opaque, library) {
  library.def("turned(Tensor x, Tensor unused) -> Tensor", {at::Tag::pt2_compliant_tag});
  library.impl("turned", c10::DispatchKey::Autograd, &turned);
}

Tensor callTurned(const Tensor &x, const Tensor &unused) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("graphopt_opaque::turned", "")
                             .typed<Tensor(const Tensor &, const Tensor &)>();
  return op.call(x, unused);
}

/// Sums over the gradient that the operator gives: their bits tell how it lay.
struct AroundTurned : torch::nn::Module {
  Tensor bias, scale, row;
  AroundTurned() {
    bias = register_parameter("bias", torch::full({300}, 0.25));
    scale = register_parameter("scale", torch::full({}, 1.5));
    row = register_parameter("row", torch::full({7}, 0.125));
  }
  Tensor forward(const Tensor &x) {
    const Tensor h = x * scale + bias;
    return (callTurned(h, h.mean() * row) * x.t()).sum();
  }
};

Tensor rows(int64_t count, int64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
  return torch::randn({count, 300}, generator);
}

/// Many of them: all their gradients are looked at in one backward.
struct Turns : AroundTurned {
  Tensor forward(const Tensor &x) {
    Tensor h = x;
    for (int i = 0; i < 10; ++i)
      h = callTurned((h + (i % 2 == 0 ? bias : bias.sum())) * 0.01, scale * row) + scale;
    return h.sum();
  }
};

/// Gradients with gaps: slices of larger ones.
Tensor sliced(const Tensor &x) { return x.sum().item<float>() > 1e9 ? x : x.clone(); }
struct SlicedFunction : torch::autograd::Function<SlicedFunction> {
  static Tensor forward(torch::autograd::AutogradContext *, const Tensor &x) { return sliced(x); }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext *,
                                               torch::autograd::tensor_list gradients) {
    return {torch::stack({gradients[0], gradients[0]}, -1).select(-1, 1)};
  }
};
TORCH_LIBRARY_FRAGMENT(graphopt_opaque, library) {
  library.def("sliced(Tensor x) -> Tensor", {at::Tag::pt2_compliant_tag});
  library.impl("sliced", c10::DispatchKey::Autograd,
               [](const Tensor &x) { return SlicedFunction::apply(x); });
}
struct AroundSliced : AroundTurned {
  Tensor forward(const Tensor &x) {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("graphopt_opaque::sliced", "")
                               .typed<Tensor(const Tensor &)>();
    return (op.call(x * scale + bias) * x).sum() + row.sum();
  }
};

template <class Net> graphopt::Explanation expectEagersGradients() {
  const auto run = [](bool compiled) {
    auto net = std::make_shared<Net>();
    auto fast = graphopt::compile(net, {.disable = !compiled, .strict = true});
    std::vector<Tensor> values;
    for (int64_t i = 0; i < 12; ++i) {
      net->zero_grad();
      const Tensor loss = fast(rows(300, i));
      loss.backward();
      values.push_back(loss.detach());
      for (const Tensor &parameter : net->parameters())
        values.push_back(parameter.grad());
    }
    return std::pair(values, fast.explain());
  };
  const auto [eager, nothing] = run(false);
  const auto [got, explanation] = run(true);
  for (size_t i = 0; i < eager.size(); ++i)
    EXPECT_TRUE(sameBits(eager[i], got[i])) << "value " << i;
  EXPECT_GE(explanation.compiledRuns, 8u) << explanation;
  EXPECT_TRUE(explanation.notCompiled.empty()) << explanation;
  EXPECT_FALSE(explanation.opaque.empty()) << explanation;
  return explanation;
}

/// The first plan counts on contiguous gradients of both operands, the second on one, turned.
TEST(Opaque, HowItsGradientsComeIsLearned) {
  EXPECT_EQ(expectEagersGradients<AroundTurned>().backwardsAgain, 1u);
}
TEST(Opaque, HowManyGradientsComeIsLearnedAtOnce) {
  EXPECT_LE(expectEagersGradients<Turns>().backwardsAgain, 3u);
}
TEST(Opaque, GradientsWithGapsAreLearned) {
  EXPECT_EQ(expectEagersGradients<AroundSliced>().backwardsAgain, 1u);
}

} // namespace
