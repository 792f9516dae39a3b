// One callable, many threads: recording, shadowing, diverging, being explained and reset, all at once.
#include <graphopt/graphopt.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <barrier>
#include <thread>

namespace {

using at::Tensor;

/// Branches on a number of the caller's, reads a value, loops: several segments, some of them only at some
/// calls.
Tensor program(const Tensor &x, int kind) {
  Tensor y = torch::tanh(x) * (kind % 5);
  if (kind % 3 == 0)
    y = y + y.sum().item<float>();
  for (int i = 0; i < kind % 4; ++i)
    y = kind % 2 ? torch::sigmoid(y) : torch::relu(y) + 1;
  return y.view({-1}) + x.sum();
}

/// Runs `calls(number)` on several threads and waits for all. What a thread throws fails the test.
template <class F> void onThreads(int count, F calls) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t)
    threads.emplace_back([&calls, t] {
      try {
        calls(t);
      } catch (const std::exception &error) {
        ADD_FAILURE() << "thread " << t << ": " << error.what();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(ShadowThreads, allAtOnceEqualsEager) {
  auto fast = graphopt::compile(program);
  std::atomic<bool> isDone{false};
  std::thread onlooker([&] {
    for (int i = 0; !isDone; ++i) {
      const graphopt::Explanation explanation = fast.explain();
      EXPECT_FALSE(explanation.text().empty());
      EXPECT_LE(explanation.shadow.shadowedCalls, explanation.shadow.calls);
      if (i % 20 == 19)
        fast.reset();
      std::this_thread::yield();
    }
  });
  onThreads(4, [&](int thread) {
    for (int i = 0; i < 200; ++i) {
      const int kind = (i * 7 + thread * 3) % 30;
      const Tensor x = torch::randn({2 + (i / 50) % 3}).requires_grad_(i % 2 == 0);
      const Tensor want = program(x, kind), got = fast(x, kind);
      ASSERT_TRUE(torch::equal(want, got)) << "thread " << thread << " call " << i << " kind " << kind << "\n"
                                           << x << want << got << fast.explain();
      if (!x.requires_grad())
        continue;
      ASSERT_TRUE(torch::equal(torch::autograd::grad({want.sum()}, {x})[0],
                               torch::autograd::grad({got.sum()}, {x})[0]));
    }
  });
  isDone = true;
  onlooker.join();
  EXPECT_EQ(fast.explain().shadow.calls, 800u);
  EXPECT_EQ(fast.explain().shadow.verifyDifferences, 0u) << fast.explain();
}

/// Two threads record at once, so that two segments begin alike but for a number. Calls that take the first
/// path for the second one, or the other way round, keep their own number.
TEST(ShadowThreads, pathsRecordedAtOnceKeepTheirNumbersApart) {
  std::barrier meeting(2);
  bool meets = true;
  auto code = [](const Tensor &x, double number, bool second, const std::function<void()> &meet) {
    const Tensor y = x + number;
    meet();
    return second ? torch::sigmoid(y) : torch::tanh(y);
  };
  auto fast = graphopt::compile([&](const Tensor &x, double number, bool second) {
    return code(x, number, second, [&] {
      if (meets)
        meeting.arrive_and_wait();
    });
  });
  const Tensor x = torch::randn({3});
  const at::NoGradGuard noGrad;
  onThreads(2, [&](int thread) {
    const at::NoGradGuard noGrad;
    fast(x, thread ? 0.25 : 0.75, thread);
  });
  meets = false;
  EXPECT_EQ(fast.explain().shadow.recordings, 2u) << fast.explain();
  for (double number : {0.25, 0.75, 0.5, 0.75, 0.25})
    for (bool second : {false, true})
      ASSERT_TRUE(torch::equal(fast(x, number, second), code(x, number, second, [] {})))
          << number << " " << second << fast.explain();
}

TEST(ShadowThreads, whatOneThreadRecordedServesAll) {
  auto fast = graphopt::compile(program);
  const Tensor x = torch::randn({3});
  const at::NoGradGuard noGrad;
  for (int i = 0; i < 3; ++i)
    fast(x, 7);
  const uint64_t recordings = fast.explain().shadow.recordings;
  const Tensor want = program(x, 7);
  onThreads(4, [&](int) {
    const at::NoGradGuard noGrad;
    for (int i = 0; i < 100; ++i)
      ASSERT_TRUE(torch::equal(fast(x, 7), want));
  });
  EXPECT_EQ(fast.explain().shadow.recordings, recordings) << fast.explain();
  EXPECT_EQ(fast.explain().shadow.divergences, 0u) << fast.explain();
}

TEST(ShadowThreads, aFrameWanders) {
  auto fast = graphopt::compile(program);
  const Tensor x = torch::randn({4});
  for (int i = 0; i < 40; ++i) { // one call at a time, each on a thread of its own
    Tensor got;
    onThreads(1, [&](int) { got = fast(x, i % 6); });
    ASSERT_TRUE(torch::equal(got, program(x, i % 6))) << i;
  }
}

TEST(ShadowThreads, auditAndTrustedFromMany) {
  for (graphopt::Replay replay : {graphopt::Replay::audit, graphopt::Replay::trusted}) {
    auto fast = graphopt::compile([](const Tensor &x) { return torch::tanh(x) * 2; },
                                  {.replay = replay, .strict = true, .auditEvery = 7});
    onThreads(4, [&](int thread) {
      const at::NoGradGuard noGrad;
      for (int i = 0; i < 100; ++i) {
        const Tensor x = torch::randn({1 + (i + thread) % 3});
        ASSERT_TRUE(torch::equal(fast(x), torch::tanh(x) * 2));
      }
    });
    EXPECT_EQ(fast.explain().counters.calls, 400u);
    EXPECT_EQ(fast.explain().counters.auditDifferences, 0u) << fast.explain();
  }
}

} // namespace
