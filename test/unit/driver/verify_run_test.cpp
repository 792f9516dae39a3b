// The verify run: operators that write or remember what they do not declare are found the first time that a
// shadowed call runs them, and the caller's values stay those of one run.
#include "driver/live_copies.h"
#include "driver/same_values.h"

#include <graphopt/graphopt.h>
#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/torch.h>

namespace {

using at::Tensor;

int64_t counted = 0;
bool countsUp = true;

/// From its second call on it writes x past its version counter, which its schema does not say. (A write
/// while it is recorded is seen there.)
int64_t bumped = 0;
Tensor bump(const Tensor &x) {
  if (bumped++ == 0)
    return x * 2;
  auto *data = const_cast<float *>(x.const_data_ptr<float>());
  for (int64_t i = 0; i < x.numel(); ++i)
    data[i] += 1;
  return x * 2;
}
Tensor count(const Tensor &x) { return x + static_cast<double>(countsUp ? ++counted : counted); }
Tensor noise(const Tensor &x) { return x + at::rand_like(x); }
Tensor twice(const Tensor &x) { return x * 2; }

TORCH_LIBRARY(graphopt_verify, library) {
  const std::vector<at::Tag> honest{at::Tag::pt2_compliant_tag};
  for (const char *name : {"bump", "count", "noise", "twice"})
    library.def((std::string(name) + "(Tensor x) -> Tensor").c_str(), honest);
}
TORCH_LIBRARY_IMPL(graphopt_verify, CPU, library) {
  library.impl("bump", &bump);
  library.impl("count", &count);
  library.impl("noise", &noise);
  library.impl("twice", &twice);
}

Tensor call(const char *name, const Tensor &x) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Tensor(const Tensor &)>().call(x);
}

/// Calls under no_grad, with what went to standard error.
template <class F> std::string said(F calls) {
  const at::NoGradGuard noGrad;
  testing::internal::CaptureStderr();
  calls();
  return testing::internal::GetCapturedStderr();
}

size_t occurrences(const std::string &text, const std::string &part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

TEST(VerifyRun, findsAnUndeclaredWriteAndKeepsTheCallersValues) {
  auto code = [](const Tensor &x) { return call("graphopt_verify::bump", x) + torch::tanh(x); };
  auto fast = graphopt::compile(code);
  const std::string text = said([&] {
    for (int i = 0; i < 6; ++i) {
      Tensor x = torch::randn({4}), y = x.clone();
      bumped = i;
      const Tensor want = code(y);
      bumped = i;
      ASSERT_TRUE(torch::equal(fast(x), want)) << "call " << i << fast.explain();
      ASSERT_TRUE(torch::equal(x, y)) << "call " << i;
    }
  });
  const graphopt::Explanation explanation = fast.explain();
  EXPECT_EQ(explanation.shadow.verifyDifferences, 1u) << explanation;
  EXPECT_EQ(occurrences(text, "graphopt_verify::bump: it writes an argument"), 1u) << text;
  ASSERT_FALSE(explanation.verifyFindings.empty());
  EXPECT_NE(explanation.verifyFindings[0].find("graphopt_verify::bump"), std::string::npos);
  for (const graphopt::SegmentInfo &segment : explanation.segments)
    EXPECT_EQ(segment.graph.find("graphopt_verify::bump"), std::string::npos) << segment.graph;
  EXPECT_GT(explanation.shadow.directOperators, 0u) << explanation; // it runs as it is
}

TEST(VerifyRun, findsStateThatAnOperatorKeeps) {
  counted = 0;
  auto fast = graphopt::compile([](const Tensor &x) { return call("graphopt_verify::count", x) * 2; });
  const std::string text = said([&] {
    const Tensor zero = torch::zeros({2});
    EXPECT_EQ(fast(zero)[0].item<float>(), 2);
    EXPECT_EQ(fast(zero)[0].item<float>(), 4); // of the first run, not of the one beside
    // The run beside has counted too, which cannot be undone. From here on each call counts once.
    EXPECT_EQ(fast(zero)[0].item<float>(), 8);
    EXPECT_EQ(fast(zero)[0].item<float>(), 10);
  });
  EXPECT_EQ(fast.explain().shadow.verifyDifferences, 1u) << fast.explain();
  EXPECT_EQ(occurrences(text, "answers differently"), 1u) << text;
}

TEST(VerifyRun, strictThrowsAfterTheCallsWritesAreDone) {
  Tensor state = torch::zeros({3});
  auto fast = graphopt::compile(
      [&](const Tensor &x) {
        state.add_(x);
        return call("graphopt_verify::bump", state) + 1;
      },
      {.strict = true});
  const Tensor one = torch::ones({3});
  bumped = 0;
  const std::string text = said([&] {
    fast(one);
    try {
      fast(one);
      FAIL() << "nothing was thrown";
    } catch (const graphopt::Error &error) {
      EXPECT_NE(std::string(error.what()).find("graphopt_verify::bump"), std::string::npos) << error.what();
    }
    EXPECT_EQ(state[0].item<float>(), 3); // each call adds one, the second bumps once
    EXPECT_EQ(fast(one)[0].item<float>(), 11);
    EXPECT_EQ(state[0].item<float>(), 5);
  });
  EXPECT_EQ(text, "");
}

TEST(VerifyRun, honestOperatorsAndDrawsAreLeftAlone) {
  auto code = [](const Tensor &x) {
    return call("graphopt_verify::twice", call("graphopt_verify::noise", x)) + torch::dropout(x, 0.5, true);
  };
  auto fast = graphopt::compile(code);
  const std::string text = said([&] {
    for (int i = 0; i < 6; ++i) {
      const Tensor x = torch::randn({40});
      torch::manual_seed(i);
      const Tensor want = code(x), wantNext = torch::rand({3});
      torch::manual_seed(i);
      ASSERT_TRUE(torch::equal(fast(x), want)) << i;
      ASSERT_TRUE(torch::equal(torch::rand({3}), wantNext)) << i;
    }
  });
  const graphopt::ShadowCounters shadow = fast.explain().shadow;
  EXPECT_EQ(text, "");
  EXPECT_EQ(shadow.verifyRuns, 1u) << fast.explain();
  EXPECT_EQ(shadow.verifyDifferences + shadow.verifyUndecided + shadow.verifySkips, 0u) << fast.explain();
  EXPECT_EQ(shadow.recordings, 1u) << fast.explain();
}

TEST(VerifyRun, comesOnceForEachSegmentAndPrefix) {
  int length = 0;
  auto fast = graphopt::compile([&](Tensor x) {
    for (int i = 0; i < length; ++i)
      x = torch::tanh(x) + 1;
    return x;
  });
  for (int i = 0; i < 12; ++i) {
    length = 1 + i % 2;
    fast(torch::randn({3}));
  }
  const graphopt::Explanation explanation = fast.explain();
  EXPECT_GE(explanation.shadow.verifyRuns, 1u) << explanation;
  EXPECT_LE(explanation.shadow.verifyRuns, explanation.segments.size() + 1) << explanation;
}

TEST(VerifyRun, canBeSwitchedOffAndHasALimit) {
  countsUp = true;
  auto code = [](const Tensor &x) { return call("graphopt_verify::count", x) * 2; };
  auto off = graphopt::compile(code, {.verifyRun = false});
  auto small = graphopt::compile(code, {.verifyLimit = 100});
  const std::string text = said([&] {
    for (int i = 0; i < 4; ++i) {
      off(torch::zeros({1000}));
      small(torch::zeros({1000}));
    }
  });
  EXPECT_EQ(off.explain().shadow.verifyRuns, 0u);
  EXPECT_EQ(small.explain().shadow.verifyRuns, 0u);
  EXPECT_EQ(small.explain().shadow.verifySkips, 1u) << small.explain();
  ASSERT_EQ(small.explain().verifyFindings.size(), 1u);
  EXPECT_NE(small.explain().verifyFindings[0].find("4000 bytes"), std::string::npos) << small.explain();
  EXPECT_EQ(text, "");
}

TEST(VerifyRun, uninitializedMemoryIsNoDifference) {
  auto fast = graphopt::compile([](const Tensor &x) {
    Tensor made = torch::empty({1000}), more = torch::empty_like(made);
    made.slice(0, 0, 4).copy_(x);
    return std::vector{made, more, made * 1};
  });
  for (int i = 0; i < 4; ++i)
    fast(torch::randn({4}));
  const graphopt::ShadowCounters shadow = fast.explain().shadow;
  EXPECT_EQ(shadow.verifyRuns, 1u) << fast.explain();
  EXPECT_EQ(shadow.verifyDifferences + shadow.verifyUndecided, 0u) << fast.explain();
}

TEST(VerifyRun, theHistoryIsThatOfOneRun) {
  Tensor weight = torch::randn({4, 4}).requires_grad_(), buffer = torch::zeros({4});
  int hooked = 0;
  weight.register_hook([&](const Tensor &gradient) { ++hooked, (void)gradient; });
  auto fast = graphopt::compile([&](const Tensor &x) {
    Tensor y = x * 1;
    y.add_(torch::mv(weight, x));
    buffer.mul_(0.5).add_(y.detach());
    return y.relu_();
  });
  for (int i = 1; i <= 4; ++i) {
    const uint32_t version = buffer._version();
    Tensor x = torch::randn({4}).requires_grad_();
    fast(x).sum().backward();
    EXPECT_EQ(hooked, i);
    EXPECT_EQ(buffer._version(), version + 2);
  }
  const graphopt::ShadowCounters shadow = fast.explain().shadow;
  EXPECT_GE(shadow.verifyRuns, 1u) << fast.explain();
  EXPECT_EQ(shadow.verifyDifferences + shadow.verifyUndecided, 0u) << fast.explain();
}

TEST(LiveCopies, shareMemoryAsTheOriginalsDo) {
  const Tensor memory = torch::randn({10}), view = memory.slice(0, 2, 5), other = torch::randn({3});
  graphopt::driver::LiveCopies copies({memory, Tensor(), view, other});
  ASSERT_EQ(copies.memories(), 2u);
  EXPECT_EQ(graphopt::driver::LiveCopies::bytesOf({memory, view, other}), 52u);
  copies.keep(0);
  copies.tensors()[2].fill_(7);
  EXPECT_EQ(copies.tensors()[0][2].item<float>(), 7);
  EXPECT_NE(memory[2].item<float>(), 7);
  EXPECT_TRUE(copies.changed(0));
  EXPECT_FALSE(copies.agree(0));
  EXPECT_TRUE(copies.agree(1));
  copies.renew();
  EXPECT_TRUE(copies.agree(0));
  EXPECT_TRUE(torch::equal(copies.tensors()[2], view));
}

TEST(LiveCopies, lookLikeTheOriginalsToOperators) {
  const Tensor leaf = torch::randn({2, 3}).requires_grad_(), made = leaf.t() * 2;
  const Tensor complex = torch::randn({2}, at::kComplexFloat).conj();
  Tensor inference;
  {
    const c10::InferenceMode mode;
    inference = torch::randn({2});
  }
  const graphopt::driver::LiveCopies copies({leaf, made, complex, inference});
  const auto &[a, b, c, d] =
      std::tie(copies.tensors()[0], copies.tensors()[1], copies.tensors()[2], copies.tensors()[3]);
  EXPECT_TRUE(a.is_leaf() && a.requires_grad());
  EXPECT_TRUE(!b.is_leaf() && b.requires_grad());
  EXPECT_EQ(b.strides(), made.strides());
  EXPECT_TRUE(c.is_conj() && torch::equal(c, complex));
  EXPECT_TRUE(d.is_inference());
  EXPECT_EQ(d.key_set(), inference.key_set());
}

TEST(Nearness, knowsRoundingFromOtherValues) {
  using graphopt::driver::nearness;
  using graphopt::driver::Nearness;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = torch::tensor({1.0f, -3.0f, nan});
  EXPECT_EQ(nearness(x, x.clone()), Nearness::Same);
  EXPECT_EQ(nearness(x, x * (1 + 1e-6)), Nearness::Rounding);
  EXPECT_EQ(nearness(x, x * 1.01), Nearness::Apart);
  EXPECT_EQ(nearness(x, torch::tensor({1.0f, nan, nan})), Nearness::Apart);
  EXPECT_EQ(nearness(torch::tensor({1, 2}), torch::tensor({1, 3})), Nearness::Apart);
  EXPECT_EQ(nearness(torch::tensor({true}), torch::tensor({false})), Nearness::Apart);
}

} // namespace
