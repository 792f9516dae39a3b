// The harness itself: programs that are wrong on purpose, one for each thing it looks at, must be found out.
#include "trap.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/generated/variable_factories.h>

namespace graphopt::soundness {
namespace {

/// In this mode a body can tell that it is the compiled one, and cheat.
const Mode kCheating{"cheating", {.disable = true}, /*replays=*/true};

std::vector<std::string> found(void (*body)(Trial &)) {
  return spring({"Harness", "cheat", body, __FILE__, __LINE__}, kCheating);
}

Tensor input(Trial &run) { return run.randn({2, 3}); }

TEST(Harness, FairProgramsPass) {
  EXPECT_EQ(found([](Trial &run) { run.calls([&](int) { run.see("y", input(run) * 2); }); }),
            std::vector<std::string>());
}

TEST(Harness, SeesValues) {
  EXPECT_FALSE(found([](Trial &run) {
                 run.calls(
                     [&](int call) { run.see("y", input(run) * (call == 7 && run.replays() ? 3 : 2)); });
               }).empty());
}

TEST(Harness, SeesSignsOfZeroAndNothingInNan) {
  EXPECT_FALSE(found([](Trial &run) {
                 run.calls([&](int) { run.see("y", torch::zeros({2}) * (run.replays() ? -1 : 1)); });
               }).empty());
  EXPECT_TRUE(
      found([](Trial &run) { run.calls([&](int) { run.see("y", torch::full({2}, NAN)); }); }).empty());
}

TEST(Harness, SeesMetadata) {
  const std::vector<void (*)(Trial &)> cheats{
      [](Trial &run) { run.calls([&](int) { run.see("y", torch::zeros(run.replays() ? 3 : 2)); }); },
      [](Trial &run) {
        run.calls(
            [&](int) { run.see("y", run.replays() ? torch::zeros({3, 2}).t() : torch::zeros({2, 3})); });
      },
      [](Trial &run) {
        run.calls([&](int) { run.see("y", torch::zeros(2, run.replays() ? at::kLong : at::kInt)); });
      },
      [](Trial &run) {
        run.calls([&](int) { run.see("y", torch::zeros(2).set_requires_grad(run.replays())); });
      },
      [](Trial &run) {
        run.calls(
            [&](int) { run.see("y", run.replays() ? torch::zeros({2}).view({2}) : torch::zeros({2})); });
      },
      [](Trial &run) {
        run.calls([&](int) {
          Tensor y = torch::zeros({2});
          if (run.replays())
            y.add_(0);
          run.see("y", y);
        });
      },
      [](Trial &run) { run.calls([&](int) { run.see("y", run.replays() ? Tensor() : torch::zeros(2)); }); },
  };
  for (size_t i = 0; i < cheats.size(); ++i)
    EXPECT_FALSE(found(cheats[i]).empty()) << "cheat " << i;
}

TEST(Harness, SeesSharedMemory) {
  EXPECT_FALSE(found([](Trial &run) {
                 run.calls([&](int) {
                   Tensor x = run.in("x", input(run)), y = x.detach();
                   run.see("y", run.replays() ? y.clone() : y);
                 });
               }).empty());
}

TEST(Harness, SeesResultsThatALaterCallOverwrites) {
  EXPECT_FALSE(found([](Trial &run) {
                 const Tensor buffer = torch::zeros({2, 3});
                 run.calls([&](int) {
                   Tensor x = input(run);
                   run.see("y", run.replays() ? buffer.copy_(x) : x);
                 });
               }).empty());
}

TEST(Harness, SeesState) {
  EXPECT_FALSE(found([](Trial &run) {
                 Tensor w = torch::zeros({2});
                 run.watch("w", w);
                 run.calls([&](int) { w = run.replays() ? w : w.add_(1); });
               }).empty());
}

TEST(Harness, SeesGradients) {
  EXPECT_FALSE(found([](Trial &run) {
                 Tensor w = torch::ones({2, 3}).set_requires_grad(run.gradients());
                 run.watch("w", w);
                 run.calls(
                     [&](int) { run.backward(run.replays() ? input(run) * w.detach() : input(run) * w); });
               }).empty());
}

TEST(Harness, SeesTheGenerator) {
  EXPECT_FALSE(found([](Trial &run) {
                 run.calls([&](int) {
                   if (run.replays())
                     torch::rand({1});
                 });
               }).empty());
}

TEST(Harness, SeesErrors) {
  EXPECT_FALSE(found([](Trial &run) {
                 run.calls([&](int) {
                   if (run.replays())
                     throw std::runtime_error("a");
                   throw std::runtime_error("b");
                 });
               }).empty());
}

TEST(Harness, RefusesTrapsThatFailByThemselves) {
  const auto fails = [](Trial &run) { run.calls([&](int) { throw std::runtime_error("a"); }); };
  EXPECT_FALSE(found(fails).empty());
  EXPECT_TRUE(found([](Trial &run) {
                run.mayThrow();
                run.calls([&](int) { throw std::runtime_error("a"); });
              }).empty());
}

TEST(Harness, SeesThatNothingWasMatched) {
  const auto body = [](Trial &run) {
    auto f = run.compile([n = int64_t(0)](Tensor x) mutable { // a new rank each time
      return x.reshape(std::vector<int64_t>(static_cast<size_t>(++n), 1)).tanh().sum();
    });
    run.calls([&](int) { run.see("y", f(run.randn({1}))); });
  };
  for (const Mode &mode : modes())
    EXPECT_EQ(spring({"Harness", "unmatched", body, __FILE__, __LINE__}, mode).empty(), !mode.replays)
        << mode.name;
}

TEST(Harness, SeesThatCallsAreNotSteady) {
  const auto body = [](Trial &run) {
    run.expectSteady();
    auto f = run.compile([n = int64_t(0)](Tensor x) mutable {
      return (x + 1).reshape(std::vector<int64_t>(static_cast<size_t>(1 + ++n / 3), 1)).sum();
    });
    run.calls([&](int) { run.see("y", f(run.randn({1}))); });
  };
  for (const Mode &mode : modes())
    EXPECT_EQ(spring({"Harness", "unsteady", body, __FILE__, __LINE__}, mode).empty(), !mode.replays)
        << mode.name;
}

TEST(Harness, SeesSwitches) {
  EXPECT_FALSE(found([](Trial &run) {
                 run.calls([&](int) {
                   at::set_default_dtype(c10::scalarTypeToTypeMeta(run.replays() ? at::kDouble : at::kFloat));
                 });
               }).empty());
  EXPECT_EQ(at::get_default_dtype(), caffe2::TypeMeta::Make<float>()); // and puts them back
}

} // namespace
} // namespace graphopt::soundness
