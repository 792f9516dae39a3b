// Replay::audit: every Nth call runs the program, and what it does is held against the plan. And what is done
// where nothing can be captured at all.
#include "capture/capture.h"

#include <graphopt/graphopt.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace {

using at::Tensor;
using graphopt::Replay;

template <class F> std::string said(F calls) {
  const at::NoGradGuard noGrad;
  testing::internal::CaptureStderr();
  calls();
  return testing::internal::GetCapturedStderr();
}

TEST(Audit, skipsTheHostCodeBetweenAudits) {
  int runs = 0;
  auto fast = graphopt::compile(
      [&](const Tensor &x) {
        ++runs;
        return torch::tanh(x) * 2;
      },
      {.replay = Replay::audit, .auditEvery = 5});
  const std::string text = said([&] {
    for (int i = 0; i < 20; ++i) {
      const Tensor x = torch::randn({4});
      ASSERT_TRUE(torch::equal(fast(x), torch::tanh(x) * 2)) << i;
    }
  });
  EXPECT_EQ(runs, 1 + 4); // the recording, and calls 5, 10, 15 and 20
  const graphopt::Explanation explanation = fast.explain();
  EXPECT_EQ(explanation.replay, "audit");
  EXPECT_EQ(explanation.counters.audits, 4u) << explanation;
  EXPECT_EQ(explanation.counters.auditDifferences, 0u) << explanation;
  EXPECT_NE(explanation.text().find("audits 4, 0 found a difference"), std::string::npos) << explanation;
  EXPECT_EQ(text, "");
}

TEST(Audit, findsHiddenStateAndGoesOnInShadow) {
  int step = 0;
  auto fast = graphopt::compile([&](const Tensor &x) { return x + static_cast<double>(++step); },
                                {.replay = Replay::audit, .auditEvery = 4});
  const std::string text = said([&] {
    const Tensor zero = torch::zeros({2});
    EXPECT_EQ(fast(zero)[0].item<float>(), 1);
    EXPECT_EQ(fast(zero)[0].item<float>(), 1); // skipped: what trusting means
    EXPECT_EQ(fast(zero)[0].item<float>(), 1);
    EXPECT_EQ(fast(zero)[0].item<float>(), 2); // audited: what the program says
    for (int i = 3; i < 12; ++i)
      EXPECT_EQ(fast(zero)[0].item<float>(), i);
  });
  const graphopt::Explanation explanation = fast.explain();
  EXPECT_EQ(explanation.counters.auditDifferences, 1u) << explanation;
  ASSERT_EQ(explanation.auditDifferences.size(), 1u);
  EXPECT_NE(explanation.auditDifferences[0].find("call 4: result 0 has other values"), std::string::npos)
      << explanation;
  EXPECT_GT(explanation.shadow.shadowedCalls, 0u) << explanation;
  EXPECT_NE(text.find("an audit found"), std::string::npos) << text;
  EXPECT_EQ(text.find("an audit found"), text.rfind("an audit found")) << text;
}

TEST(Audit, strictThrows) {
  int step = 0;
  auto fast = graphopt::compile([&](const Tensor &x) { return ++step > 1 ? x * 2 : x + 1; },
                                {.replay = Replay::audit, .strict = true, .auditEvery = 3});
  const std::string text = said([&] {
    const Tensor x = torch::full({2}, 3);
    fast(x);
    fast(x);
    EXPECT_THROW(fast(x), graphopt::Error);
    EXPECT_EQ(fast(x)[0].item<float>(), 6); // in shadow
  });
  EXPECT_EQ(text, "");
}

TEST(Audit, comparesWhatIsWritten) {
  Tensor state = torch::zeros({3}), twin = torch::zeros({3});
  bool adds = false;
  auto code = [](Tensor &state, const Tensor &x, bool adds) {
    state.mul_(0.5).add_(x, adds ? 2 : 1);
    return x * 2;
  };
  auto fast = graphopt::compile([&](const Tensor &x) { return code(state, x, adds); },
                                {.replay = Replay::audit, .auditEvery = 2});
  said([&] {
    for (int i = 0; i < 12; ++i) {
      adds = i >= 5; // call 6 is audited
      const Tensor x = torch::randn({3});
      ASSERT_TRUE(torch::equal(fast(x), code(twin, x, adds))) << i;
      ASSERT_TRUE(torch::equal(state, twin)) << i << fast.explain();
    }
  });
  EXPECT_EQ(fast.explain().counters.audits, 3u) << fast.explain();
  EXPECT_NE(fast.explain().auditDifferences.at(0).find("has other values afterwards"), std::string::npos)
      << fast.explain();
}

TEST(Audit, leavesRandomNumbersAsTheProgramDoes) {
  auto code = [](const Tensor &x) { return torch::dropout(x, 0.5, true) + torch::rand_like(x); };
  auto fast = graphopt::compile(code, {.replay = Replay::audit, .auditEvery = 2});
  said([&] {
    const Tensor x = torch::ones({50});
    torch::manual_seed(3);
    std::vector<Tensor> want;
    for (int i = 0; i < 6; ++i)
      want.push_back(code(x));
    torch::manual_seed(3);
    for (int i = 0; i < 6; ++i)
      EXPECT_TRUE(torch::equal(fast(x), want[i])) << i;
  });
  EXPECT_EQ(fast.explain().counters.audits, 3u) << fast.explain();
  EXPECT_EQ(fast.explain().counters.auditDifferences, 0u) << fast.explain();
}

TEST(Audit, anErrorThatThePlanDoesNotThrowIsADifference) {
  int step = 0;
  auto fast = graphopt::compile(
      [&](const Tensor &x) {
        if (++step == 2)
          throw std::runtime_error("mine");
        return x * 2;
      },
      {.replay = Replay::audit, .auditEvery = 3});
  said([&] {
    const Tensor x = torch::ones({2});
    fast(x);
    fast(x);
    EXPECT_THROW(fast(x), std::runtime_error);
    EXPECT_EQ(fast(x)[0].item<float>(), 2);
  });
  EXPECT_EQ(fast.explain().counters.auditDifferences, 1u) << fast.explain();
}

TEST(Audit, everyZerothCallIsAUserError) {
  EXPECT_THROW(
      graphopt::compile([](const Tensor &x) { return x; }, {.replay = Replay::audit, .auditEvery = 0}),
      graphopt::Error);
}

TEST(NothingCanBeCaptured, callsRunEagerlyWhichIsSaidOnce) {
  const graphopt::capture::SelfTestTrouble trouble("a key is taken");
  const std::string text = said([&] {
    for (Replay replay : {Replay::shadow, Replay::audit, Replay::trusted}) {
      int runs = 0;
      auto fast = graphopt::compile(
          [&](const Tensor &x) {
            ++runs;
            return x * 2;
          },
          {.replay = replay});
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(fast(torch::ones({2}))[0].item<float>(), 2);
      EXPECT_EQ(runs, 3);
      const graphopt::Explanation explanation = fast.explain();
      EXPECT_EQ(explanation.replay, "eager");
      EXPECT_EQ(explanation.counters.eagerRuns, 3u) << explanation;
      EXPECT_NE(explanation.text().find("a key is taken"), std::string::npos) << explanation;
    }
  });
  EXPECT_EQ(text, "graphopt: compiled calls run eagerly: this process cannot be captured: a key is taken\n");
}

TEST(NothingCanBeCaptured, strictThrows) {
  const graphopt::capture::SelfTestTrouble trouble("a key is taken");
  EXPECT_THROW(graphopt::compile([](const Tensor &x) { return x; }, {.strict = true}), graphopt::Error);
}

} // namespace
