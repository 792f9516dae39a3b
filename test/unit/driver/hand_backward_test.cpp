// Operators and derivatives for which LibTorch asks the host about the data though it need not: compiled
// gradients have eager's bits whatever the data, and nothing stays opaque.
#include "same_bits.h"

#include <graphopt/graphopt.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <limits>

namespace {

using at::Tensor;
using Function = std::function<Tensor(const Tensor &)>;

struct Case {
  const char *name;
  Function function;
  std::vector<int64_t> sizes = {3, 4, 5};
  at::ScalarType dtype = at::kFloat;
};

enum class Around {
  Weighted, // the cotangent is another number for each element
  Summed,   // one number, expanded
  Twice     // the operand has a gradient already
};

/// The gradient of `shift` is that of the function's operand, which is x itself: x + -0.0 has the bits of x.
struct Net : torch::nn::Module {
  Tensor shift;
  Function function;
  Around around;
  Net(const Case &given, Around around) : function(given.function), around(around) {
    shift = register_parameter("shift", torch::full(given.sizes, -0.0, given.dtype));
  }
  Tensor forward(const Tensor &x) {
    const Tensor operand = x + shift, y = function(operand);
    if (around == Around::Summed)
      return y.sum();
    const Tensor weights = torch::arange(1, y.numel() + 1, y.options().requires_grad(false)).view(y.sizes());
    const Tensor loss = (y * (weights * 0.37 - 1)).sum();
    return around == Around::Twice ? loss + (operand * 0.3).sum() : loss;
  }
};

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A tensor of random numbers with these ones at places that are given as fractions of all.
Tensor with(const Case &given, int seed, const std::vector<std::pair<double, float>> &numbers) {
  const at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
  const Tensor x = torch::randn(given.sizes, generator).mul(1.3);
  for (const auto &[place, number] : numbers)
    if (x.numel() > 0)
      x.view(-1)[static_cast<int64_t>(place * static_cast<double>(x.numel() - 1))] = number;
  return x.to(given.dtype);
}

std::vector<Tensor> inputsOf(const Case &given) {
  return {with(given, 0, {}),
          with(given, 1, {{0.5, 0}}),
          with(given, 2, {{0.0, 0}}),
          with(given, 3, {{1.0, -0.0f}}),
          with(given, 4, {{0.2, 0}, {0.25, 0}, {0.9, 0}}),
          with(given, 5, {{0.3, 0}, {0.35, -0.0f}}),
          with(given, 6, {{0.4, NAN}}),
          with(given, 7, {{0.4, NAN}, {0.6, 0}}),
          with(given, 8, {{0.4, kInfinity}, {0.7, -kInfinity}}),
          with(given, 9, {{0.1, 0}, {0.4, kInfinity}, {0.5, 0}}),
          with(given, 10, {{0.5, 1e-40f}, {0.6, 3e38f}}),
          with(given, 11, {}) * 0};
}

/// What a call returns and the gradient it leaves.
std::vector<Tensor> run(const std::function<Tensor(const Tensor &)> &forward, Net &net, const Tensor &x) {
  net.shift.mutable_grad() = Tensor();
  const Tensor loss = forward(x);
  loss.backward();
  return {loss.detach(), net.shift.grad()};
}

/// Laid out alike, too.
bool sameBits(const Tensor &a, const Tensor &b) {
  return a.strides() == b.strides() && graphopt::test::sameBits(a, b);
}

class HandBackward : public testing::TestWithParam<std::tuple<Case, Around>> {};

TEST_P(HandBackward, HasEagersBits) {
  const auto &[given, around] = GetParam();
  Net eager(given, around);
  const auto net = std::make_shared<Net>(given, around);
  auto fast = graphopt::compile(net);
  const std::vector<Tensor> inputs = inputsOf(given);
  for (int i = 0; i < 3; ++i)
    fast(inputs[0]);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto want = run([&](const Tensor &x) { return eager.forward(x); }, eager, inputs[i]);
    const auto got = run([&](const Tensor &x) { return fast(x); }, *net, inputs[i]);
    for (size_t k = 0; k < want.size(); ++k)
      EXPECT_TRUE(sameBits(want[k], got[k])) << "input " << i << "\n" << inputs[i] << want[k] << got[k];
  }
  const graphopt::Explanation explanation = fast.explain();
  EXPECT_GE(explanation.compiledRuns, inputs.size()) << explanation;
  EXPECT_TRUE(explanation.opaque.empty()) << explanation;
  EXPECT_TRUE(explanation.borders.empty()) << explanation;
}

std::string nameOf(const testing::TestParamInfo<std::tuple<Case, Around>> &info) {
  const char *const arounds[] = {"weighted", "summed", "twice"};
  return std::string(std::get<0>(info.param).name) + "_" + arounds[static_cast<int>(std::get<1>(info.param))];
}

Tensor all(const Tensor &x) { return x.prod(); }
Tensor along0(const Tensor &x) { return x.prod(0); }
Tensor along1(const Tensor &x) { return x.prod(1); }
Tensor alongLast(const Tensor &x) { return x.prod(-1); }
Tensor kept(const Tensor &x) { return x.prod(1, /*keepdim=*/true); }
Tensor allAsDouble(const Tensor &x) { return x.prod(at::kDouble); }
Tensor alongAsFloat(const Tensor &x) { return x.prod(1, /*keepdim=*/false, at::kFloat); }
Tensor scan0(const Tensor &x) { return x.cumprod(0); }
Tensor scan1(const Tensor &x) { return x.cumprod(1); }
Tensor scanLast(const Tensor &x) { return x.cumprod(-1); }

const std::vector<Case> kProducts = {
    {"prod", all},
    {"prod_0", along0},
    {"prod_1", along1},
    {"prod_last", alongLast},
    {"prod_keepdim", kept},
    {"cumprod_0", scan0},
    {"cumprod_1", scan1},
    {"cumprod_last", scanLast},
    // layouts
    {"cumprod_of_view", [](const Tensor &x) { return x.transpose(0, 2).cumprod(1); }},
    {"cumprod_viewed", [](const Tensor &x) { return x.cumprod(1).transpose(0, 1); }},
    // sizes
    {"prod_row", all, {7}},
    {"prod_long", all, {700}},
    {"prod_wide", alongLast, {4, 130}},
    {"prod_tall", along0, {130, 4}},
    {"prod_of_one", all, {1, 1}},
    {"prod_of_nothing", all, {0, 3}},
    {"prod_along_nothing", alongLast, {2, 0}},
    {"prod_scalar", all, {}},
    {"prod_scalar_dim", along0, {}},
    {"cumprod_row", scan0, {7}},
    {"cumprod_wide", scanLast, {4, 130}},
    {"cumprod_tall", scan0, {130, 4}},
    {"cumprod_of_one", scan1, {3, 1, 2}},
    {"cumprod_of_nothing", scan0, {0, 3}},
    {"cumprod_scalar", scan0, {}},
    // dtypes
    {"prod_f64", all, {3, 4, 5}, at::kDouble},
    {"prod_f16", all, {3, 4, 5}, at::kHalf},
    {"prod_bf16", all, {3, 4, 5}, at::kBFloat16},
    {"prod_f32_as_f64", allAsDouble},
    {"prod_1_f64", along1, {3, 4, 5}, at::kDouble},
    {"prod_1_f16", along1, {3, 4, 5}, at::kHalf},
    {"prod_1_bf16", along1, {3, 4, 5}, at::kBFloat16},
    {"prod_1_bf16_as_f32", alongAsFloat, {3, 4, 5}, at::kBFloat16},
    {"cumprod_f64", scan1, {3, 4, 5}, at::kDouble},
    {"cumprod_f16", scan1, {3, 4, 5}, at::kHalf},
    {"cumprod_bf16", scan1, {3, 4, 5}, at::kBFloat16},
};

INSTANTIATE_TEST_SUITE_P(Products, HandBackward,
                         testing::Combine(testing::ValuesIn(kProducts),
                                          testing::Values(Around::Weighted, Around::Summed, Around::Twice)),
                         nameOf);

// Summed, eager's gradient is expanded where there are zeros, and is not where there are none: no rule.
INSTANTIATE_TEST_SUITE_P(DimOfOne, HandBackward,
                         testing::Combine(testing::Values(Case{"prod_of_one_dim", along1, {3, 1}}),
                                          testing::Values(Around::Weighted, Around::Twice)),
                         nameOf);

// ---- sizes that vary

/// A scale of the operand's last dim: its gradient sums those of all rows.
struct Scaled : torch::nn::Module {
  Tensor scale = register_parameter("scale", torch::full({1}, 1.5));
  Tensor forward(const Tensor &x) {
    const Tensor y = x * scale;
    return y.prod(1).sum() + y.cumprod(0).sin().sum() + y.prod();
  }
};

TEST(HandBackwardAtVaryingSizes, OnePlanHasEagersBits) {
  Scaled eager;
  const auto net = std::make_shared<Scaled>();
  auto fast = graphopt::compile(net);
  for (int i = 0; i < 24; ++i) {
    const int k = i < 4 ? i / 2 % 2 : i; // the same sizes, then others
    const Case given{"", all, {4 + (k * 5) % 7, 3 + (k * 7) % 6}};
    const Tensor x = i % 3 == 0 ? with(given, i, {}) : with(given, i, {{0.1 * (i % 7), 0}, {0.8, 0}});
    eager.zero_grad();
    net->zero_grad();
    eager.forward(x).backward();
    fast(x).backward();
    EXPECT_TRUE(sameBits(eager.scale.grad(), net->scale.grad())) << x;
  }
  const graphopt::Explanation explanation = fast.explain();
  EXPECT_GE(explanation.compiledRuns, 18u) << explanation;
  EXPECT_LE(explanation.compiledSegments, 4u) << explanation;
  EXPECT_TRUE(explanation.opaque.empty()) << explanation;
}

// ---- one number through one mask

Tensor number(at::ScalarType dtype) { return torch::scalar_tensor(0.5, dtype); }

Tensor putAll(const Tensor &x) { return x.index_put({x > 0.2}, number(x.scalar_type())); }
Tensor putLeading(const Tensor &x) {
  return x.index_put({x.select(-1, 0) > 0.2}, number(x.scalar_type()).reshape({1}));
}
Tensor putBehind(const Tensor &x) {
  return x.index_put({torch::indexing::None, x[0].select(-1, 0) > 0.2}, number(x.scalar_type()));
}
Tensor putDouble(const Tensor &x) { return x.index_put({x > 0.2}, number(at::kDouble)); }
Tensor putInPlace(const Tensor &x) {
  Tensor y = x * 2;
  y.index_put_({x > 0.2}, number(x.scalar_type()));
  return y;
}
Tensor assigned(const Tensor &x) {
  Tensor y = x * 2;
  y.index_put_({x > 0.2}, 0.5);
  return y;
}

INSTANTIATE_TEST_SUITE_P(
    Masks, HandBackward,
    testing::Combine(testing::Values(Case{"put_all", putAll}, Case{"put_leading", putLeading},
                                     Case{"put_behind", putBehind}, Case{"put_double", putDouble},
                                     Case{"put_in_place", putInPlace}, Case{"assigned", assigned},
                                     Case{"put_bf16", putAll, {3, 4, 5}, at::kBFloat16}),
                     testing::Values(Around::Weighted, Around::Summed, Around::Twice)),
    nameOf);

} // namespace
