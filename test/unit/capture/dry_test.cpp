// Dry captures: the graph of a real one, nothing computed, nothing changed; whoever needs what is not
// computed is told so.
#include "capture/capture.h"
#include "ir/print.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

namespace graphopt::capture {
namespace {

using at::Tensor;
using Function = std::function<Tensor(const Tensor &)>;

std::string capturedBy(const Function &function, const Tensor &x, bool dry) {
  const auto program =
      functionProgram("f", [&](std::vector<c10::IValue> args) { return function(args.at(0).toTensor()); });
  const Capture capture = record(*program, {x}, {.dry = dry});
  EXPECT_EQ(capture.result.isNone(), dry);
  return ir::print(capture.graph);
}

void expectSame(const Function &function, const Tensor &x = at::arange(24).view({4, 6}).to(at::kFloat)) {
  const Tensor before = x.clone(), generator = at::detail::getDefaultCPUGenerator().get_state();
  const std::string dry = capturedBy(function, x, true);
  EXPECT_TRUE(at::equal(x.detach(), before)) << "the argument has changed";
  EXPECT_TRUE(at::equal(at::detail::getDefaultCPUGenerator().get_state(), generator)) << "numbers were drawn";
  EXPECT_EQ(dry, capturedBy(function, x, false));
}

std::string refusalOf(const Function &function) {
  try {
    capturedBy(function, at::ones({1 << 9, 1 << 8}), true); // more than a dry capture computes with
  } catch (const std::exception &error) {
    return error.what();
  }
  return "";
}

TEST(Dry, HostCodeMayDecideBySizesAndConstants) {
  expectSame([](const Tensor &x) {
    const Tensor n = torch::tensor({x.size(0), x.size(1)}), limit = torch::full({}, 20, at::kLong);
    return n.prod().gt(limit).item<bool>() ? x.reshape({n[1].item<int64_t>(), -1}).relu() : x.neg();
  });
}

/// Small tensors are computed with, arguments too: what follows is what a real call would find.
TEST(Dry, HostCodeMayDecideByWhatIsSmall) {
  expectSame([](const Tensor &x) { return x.sum().item<float>() > 0 ? x.relu() : x.neg(); });
}

TEST(Dry, ContentsOfWhatIsComputedAreNotThere) {
  const char *said = "a dry capture computes nothing";
  EXPECT_NE(
      refusalOf([](const Tensor &x) { return x.sum().item<float>() > 0 ? x.relu() : x.neg(); }).find(said),
      std::string::npos);
  EXPECT_NE(refusalOf([](const Tensor &x) { return (x * 2).nonzero(); }).find(said), std::string::npos);
  EXPECT_NE(refusalOf([](const Tensor &x) { return x + x.exp().const_data_ptr<float>()[0]; }).find(said),
            std::string::npos);
  EXPECT_NE(refusalOf([](const Tensor &x) {
              const Tensor y = x.add(1);
              return x * y.accessor<float, 2>()[1][1];
            }).find(said),
            std::string::npos);
  EXPECT_EQ(refusalOf([](const Tensor &x) { return x.relu(); }), "");
}

TEST(Dry, WritesStayUndone) {
  const Tensor state = at::zeros({6});
  expectSame([&](const Tensor &x) {
    x.add_(1).clamp_(0, 3);
    const Tensor y = x.exp();
    y.select(0, 1).mul_(2);
    return y.t_();
  });
  expectSame([&](const Tensor &x) {
    state.copy_(x.mean(0));
    return x - state;
  });
  EXPECT_TRUE(at::equal(state, at::arange(24).view({4, 6}).to(at::kFloat).mean(0))); // by the real one
}

/// What is written is other than what lies there: nobody may decide by it.
TEST(Dry, WhatShouldHaveBeenWrittenIsNotRead) {
  const Tensor count = at::zeros({}, at::kLong);
  const std::string why = refusalOf([&](const Tensor &x) {
    count.add_(1);
    return count.item<int64_t>() > 0 ? x.relu() : x.neg();
  });
  EXPECT_NE(why.find("a dry capture computes nothing"), std::string::npos) << why;
  EXPECT_EQ(count.item<int64_t>(), 0);
}

TEST(Dry, DrawsNoRandomNumbers) {
  expectSame([](const Tensor &x) {
    return at::dropout(x, 0.5, true) + at::rand({4, 6}) + at::bernoulli(x.sigmoid());
  });
}

TEST(Dry, NormsAttentionAndGradients) {
  const Tensor mean = at::zeros({6}), var = at::ones({6}), weight = at::rand({6, 6}).requires_grad_();
  const Tensor counted = at::zeros({}, at::kLong);
  expectSame([&](const Tensor &x) {
    counted.add_(1);
    const Tensor h = at::batch_norm(x.matmul(weight), {}, {}, mean, var, true, 0.1, 1e-5, true);
    const Tensor q = h.view({1, 1, 4, 6});
    return at::scaled_dot_product_attention(q, q, q).flatten().pow(2).mean();
  });
}

TEST(Dry, LargeOnesCostNoMemory) {
  const auto program = functionProgram("large", [](std::vector<c10::IValue> args) {
    Tensor x = args.at(0).toTensor();
    for (int i = 0; i < 200; ++i)
      x = at::gelu(x.matmul(x));
    return c10::IValue(x.sum());
  });
  const Capture capture =
      record(*program, {at::zeros({1 << 13, 1 << 13})}, {.dry = true}); // 256 MiB a tensor
  EXPECT_EQ(capture.stats.operators, 401u);
}

TEST(Dry, ExceptionsLeaveNothingBehind) {
  refusalOf([](const Tensor &x) { return x * x.sum().item<float>(); });
  EXPECT_EQ(at::ones({2, 2}).sum().item<float>(), 4);
  EXPECT_FALSE(isRecording());
}

} // namespace
} // namespace graphopt::capture
