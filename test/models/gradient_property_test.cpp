// Random programs through lowering: forward and backward as one graph, against eager with its autograd, bit
// for bit. A failure prints its seed; GRAPHOPT_SEED=N runs that one alone, GRAPHOPT_GRAPHS=N so many.
#include "test/corpus/lowered_check.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <random>

namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

/// Programs over tensors of 3 x 4, with values used again and again.
class RandomProgram {
public:
  explicit RandomProgram(uint64_t seed) : random_(seed) {}

  Tensors operator()(Tensors values) {
    values_ = std::move(values);
    const int steps = 3 + pick(12);
    for (int i = 0; i < steps; ++i)
      step();
    Tensors results{values_.back()};
    for (int i = pick(3); i > 0; --i)
      results.push_back(any());
    if (pick(2) == 0)
      results.push_back((any() * any()).mean());
    return results;
  }

private:
  int pick(int count) { return static_cast<int>(random_() % static_cast<uint64_t>(count)); }
  Tensor any() { return values_[static_cast<size_t>(pick(static_cast<int>(values_.size())))]; }

  void step() {
    static constexpr Tensor (RandomProgram::*kKinds[])() = {
        &RandomProgram::pointwise, &RandomProgram::pointwise, &RandomProgram::pair,   &RandomProgram::pair,
        &RandomProgram::row,       &RandomProgram::product,   &RandomProgram::moved,  &RandomProgram::written,
        &RandomProgram::written,   &RandomProgram::joined,    &RandomProgram::cutOff, &RandomProgram::chosen};
    values_.push_back((this->*kKinds[pick(std::size(kKinds))])());
  }

  Tensor pointwise() {
    const Tensor x = any();
    switch (pick(11)) {
    case 0:
      return x.sin();
    case 1:
      return x.tanh().exp();
    case 2:
      return torch::relu(x);
    case 3:
      return torch::gelu(x);
    case 4:
      return torch::silu(x);
    case 5:
      return x.pow(2) * 0.5;
    case 6:
      return x.abs().add(1).log();
    case 7:
      return torch::leaky_relu(x, 0.1);
    case 8:
      return torch::elu(x);
    case 9:
      return torch::dropout(x, 0.3, /*train=*/true);
    default:
      return x.clamp(-0.7, 0.7);
    }
  }

  Tensor pair() {
    const Tensor x = any(), y = any();
    switch (pick(6)) {
    case 0:
      return x + y;
    case 1:
      return x * y;
    case 2:
      return x - y * 2;
    case 3:
      return x / (y.abs() + 1);
    case 4:
      return torch::where(x > y, x, y * 3);
    default:
      return torch::maximum(x, y);
    }
  }

  /// Along rows or columns, and back to 3 x 4 by broadcasting.
  Tensor row() {
    const Tensor x = any();
    switch (pick(6)) {
    case 0:
      return x.softmax(pick(2));
    case 1:
      return torch::layer_norm(x, {4});
    case 2:
      return x - x.mean(pick(2), /*keepdim=*/true);
    case 3:
      return x * std::get<0>(x.max(1, /*keepdim=*/true));
    case 4:
      return x.cumsum(pick(2));
    default:
      return x + x.sum(0) * 0.1;
    }
  }

  Tensor product() {
    const Tensor x = any(), y = any();
    return pick(2) == 0 ? torch::matmul(torch::matmul(x, y.t()), y)
                        : torch::einsum("ij,kj,kl->il", {x, y, y});
  }

  Tensor moved() {
    const Tensor x = any();
    switch (pick(5)) {
    case 0:
      return x.flip({pick(2)});
    case 1:
      return x.t().contiguous().t();
    case 2:
      return x.roll(1, pick(2));
    case 3:
      return x.reshape({2, 6}).reshape({3, 4});
    default:
      return x.index_select(0, torch::tensor({2, 0, 0}));
    }
  }

  /// In place: on a whole tensor, on a view, under no_grad.
  Tensor written() {
    Tensor x = any().clone();
    const Tensor y = any();
    switch (pick(6)) {
    case 0:
      x.mul_(y);
      break;
    case 1:
      x.select(pick(2), 1).add_(1.5);
      break;
    case 2:
      x.slice(1, 0, 2).copy_(y.slice(1, 2, 4));
      break;
    case 3:
      torch::relu_(x);
      break;
    case 4:
      x.t()[0].mul_(y.sum());
      break;
    default: {
      at::NoGradGuard noGrad;
      x.add_(y, 0.25);
    }
    }
    return x;
  }

  Tensor joined() {
    const Tensor x = any(), y = any();
    if (pick(2) == 0)
      return torch::stack({x, y}).sum(0);
    const Tensors parts = torch::cat({x, y}, 1).chunk(4, 1);
    return torch::cat({parts[3], parts[0]}, 1);
  }

  Tensor cutOff() { return pick(2) == 0 ? any().detach() * any() : (any() > 0).to(torch::kFloat) * any(); }

  Tensor chosen() {
    const Tensor x = any();
    return x.gather(1, std::get<1>(any().sort(1))) + std::get<0>(x.sort(1));
  }

  std::mt19937_64 random_;
  Tensors values_;
};

graphopt::corpus::Instance instanceOf(uint64_t seed) {
  graphopt::corpus::Instance instance;
  instance.program = graphopt::capture::functionProgram("random", [seed](std::vector<c10::IValue> args) {
    Tensors inputs;
    for (const c10::IValue &arg : args)
      inputs.push_back(arg.toTensor());
    return c10::IValue(RandomProgram(seed)(inputs));
  });
  at::Generator generator = at::detail::createCPUGenerator(seed);
  for (int i = 0; i < 3; ++i)
    instance.args.emplace_back(torch::randn({3, 4}, generator));
  return instance;
}

uint64_t environmentNumber(const char *name, uint64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(RandomPrograms, haveEagersGradients) {
  at::set_num_threads(1);
  const uint64_t only = environmentNumber("GRAPHOPT_SEED", 0),
                 count = environmentNumber("GRAPHOPT_GRAPHS", 2000);
  size_t refused = 0;
  for (uint64_t seed = only ? only : 1; seed <= (only ? only : count); ++seed) {
    const auto outcome = graphopt::corpus::checkLowered([&] { return instanceOf(seed); },
                                                        {.seed = 5, .arguments = {}, .allArguments = true});
    using Verdict = graphopt::corpus::Outcome::Verdict;
    refused += outcome.verdict == Verdict::Refused;
    ASSERT_TRUE(outcome.verdict == Verdict::Equal || outcome.verdict == Verdict::Refused)
        << "seed " << seed << ": " << outcome.step << ": " << outcome.reason;
  }
  EXPECT_LE(refused * 100, count) << "more than one in a hundred is refused";
}

} // namespace
