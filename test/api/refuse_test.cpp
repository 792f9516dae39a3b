// What trusted replay refuses, and that each refusal says what to do.
#include "models.h"

#include <gtest/gtest.h>

namespace graphopt::testing_api {
namespace {

using torch::Tensor;

/// The text of the user error that `call` throws.
template <class Call> std::string refusal(Call call) {
  try {
    call();
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), Error::Kind::User) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

TEST(Refuse, AParameterRequiresGrad) {
  Mlp model;
  auto fast = compile(model, kTrusted);
  const std::string text = refusal([&] { fast(torch::zeros({1, 8})); });
  EXPECT_TRUE(has(text, "'first.weight' requires grad")) << text;
  EXPECT_TRUE(has(text, "NoGradGuard")) << text;
  EXPECT_EQ(model->calls, 0); // refused before anything ran
  torch::NoGradGuard noGrad;
  fast(torch::zeros({1, 8}));
}

TEST(Refuse, AnArgumentRequiresGrad) {
  auto fast = compile([](const Tensor &x) { return x * 2; }, kTrusted);
  Tensor x = torch::zeros({2});
  fast(x);
  x.requires_grad_();
  EXPECT_TRUE(has(refusal([&] { fast(x); }), "an argument requires grad"));
}

TEST(Refuse, AnOutsideTensorRequiresGrad) {
  Tensor weight = torch::ones({2}).requires_grad_();
  auto fast = compile([weight](const Tensor &x) { return x * weight; }, kTrusted);
  EXPECT_TRUE(has(refusal([&] { fast(torch::zeros({2})); }), "a gradient could be asked for"));
}

TEST(Refuse, ABorderNamesOperatorAndModule) {
  torch::NoGradGuard noGrad;
  int calls = 0;
  auto program = [&calls](const Tensor &x) {
    ++calls;
    return x.sum().item<double>() > 0 ? x + 1 : x - 1;
  };
  auto fast = compile(program, kTrusted);
  const std::string text = refusal([&] { fast(torch::ones({2})); });
  EXPECT_TRUE(has(text, "host read")) << text;
  EXPECT_TRUE(has(text, "_local_scalar_dense") || has(text, "item")) << text;
  EXPECT_EQ(refusal([&] { fast(torch::ones({2})); }), text); // remembered:
  EXPECT_EQ(calls, 1);                                       // the program did not run again
  EXPECT_TRUE(has(fast.explain().text(), "refused: "));
}

TEST(Refuse, FullgraphSaysSo) {
  torch::NoGradGuard noGrad;
  auto fast =
      compile([](const Tensor &x) { return x.nonzero(); }, {.replay = Replay::trusted, .fullgraph = true});
  EXPECT_TRUE(has(refusal([&] { fast(torch::ones({2})); }), "fullgraph was asked for"));
}

TEST(Refuse, AnOutsideTensorThatDied) {
  torch::NoGradGuard noGrad;
  auto holder = std::make_shared<Tensor>(torch::ones({2}));
  auto fast = compile([holder](const Tensor &x) { return x + *holder; }, kTrusted);
  fast(torch::ones({2}));
  fast(torch::ones({2}));
  *holder = torch::zeros({2}); // the tensor of the recorded call is gone
  const std::string text = refusal([&] { fast(torch::ones({2})); });
  EXPECT_TRUE(has(text, "outside tensor")) << text;
}

TEST(Refuse, ResultsThatNoTreeHolds) {
  auto tree = Tree(int64_t{3});
  EXPECT_TRUE(has(refusal([&] { tree.as<Tensor>(); }), "is an int, expected a tensor"));
  EXPECT_TRUE(has(refusal([&] { (tree.as<std::pair<int, int>>()); }), "expected a list or tuple"));
}

} // namespace
} // namespace graphopt::testing_api
