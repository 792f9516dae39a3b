// Shadow mode: calls after the first are checked operator by operator, and equal eager in all that a program
// can see.
#include <graphopt/graphopt.h>
#include <graphopt/scope.h>
#include <gtest/gtest.h>
#include <sstream>
#include <torch/script.h>
#include <torch/torch.h>

#include "capture/capture.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "runtime/catalog.h"

namespace {

using at::Tensor;

struct Block : torch::nn::Module {
  torch::nn::Linear up{nullptr}, down{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  Block() {
    up = register_module("up", torch::nn::Linear(8, 16));
    down = register_module("down", torch::nn::Linear(16, 8));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})));
  }
  Tensor forward(const Tensor &x) { return x + down(torch::relu(up(norm(x)))); }
};

template <class F> void expectEqualCalls(F make, int calls = 6) {
  torch::manual_seed(0);
  auto eager = make();
  torch::manual_seed(0);
  auto model = make();
  auto fast = graphopt::compile(model);
  for (int i = 0; i < calls; ++i) {
    Tensor x = torch::randn({4, 8});
    Tensor a = x.clone().requires_grad_(), b = x.clone().requires_grad_();
    Tensor y = eager->forward(a), z = fast(b);
    ASSERT_TRUE(torch::equal(y, z)) << "call " << i;
    y.square().sum().backward();
    z.square().sum().backward();
    ASSERT_TRUE(torch::equal(a.grad(), b.grad())) << "call " << i;
    auto p = eager->parameters(), q = model->parameters();
    for (size_t k = 0; k < p.size(); ++k)
      ASSERT_TRUE(torch::equal(p[k].grad(), q[k].grad())) << "call " << i << " parameter " << k;
  }
  EXPECT_EQ(fast.explain().shadow.divergences, 0u) << fast.explain();
  EXPECT_EQ(fast.explain().shadow.recordings, 1u) << fast.explain();
}

TEST(Shadow, trainsAsEager) {
  expectEqualCalls([] { return std::make_shared<Block>(); });
}

TEST(Shadow, hiddenCounter) {
  int step = 0, other = 0;
  auto code = [](int &step, const Tensor &x) {
    ++step;
    return step % 3 == 0 ? torch::tanh(x) * 2 : torch::sigmoid(x) + step * 0.1;
  };
  auto fast = graphopt::compile([&](const Tensor &x) { return code(step, x); });
  for (int i = 0; i < 12; ++i) {
    Tensor x = torch::randn({5});
    ASSERT_TRUE(torch::equal(fast(x), code(other, x))) << i << fast.explain();
  }
  EXPECT_LE(fast.explain().shadow.divergences, 2u) << fast.explain();
}

TEST(Shadow, hostReadsInLoops) {
  auto code = [](Tensor x) {
    while (x.norm().item<double>() > 1)
      x = x * 0.5;
    return x + 1;
  };
  auto fast = graphopt::compile(code);
  for (int i = 0; i < 10; ++i) {
    Tensor x = torch::randn({5}) * (i + 1);
    ASSERT_TRUE(torch::equal(fast(x), code(x))) << i << fast.explain();
  }
  EXPECT_LE(fast.explain().segments.size(), 4u) << fast.explain();
}

TEST(Shadow, coinFlipsCostLinearlyManySegments) {
  constexpr int k = 8;
  std::array<bool, k> coins{};
  auto code = [&](Tensor x) {
    for (bool coin : coins)
      x = coin ? torch::tanh(x) + 1 : torch::sigmoid(x) * 3;
    return x;
  };
  auto fast = graphopt::compile(code);
  uint64_t recordings = 0;
  for (int i = 0; i < 1000; ++i) {
    for (bool &coin : coins)
      coin = std::rand() & 1;
    Tensor x = torch::randn({3});
    ASSERT_TRUE(torch::equal(fast(x), code(x)));
    if (i == 199)
      recordings = fast.explain().shadow.recordings;
  }
  EXPECT_LE(fast.explain().segments.size(), 2u * k + 2) << fast.explain();
  EXPECT_EQ(fast.explain().shadow.recordings, recordings);
}

TEST(Shadow, segmentsAreGraphsThatVerify) {
  auto model = std::make_shared<Block>();
  auto fast = graphopt::compile(model, {.name = "block"});
  Tensor x = torch::randn({4, 8});
  for (int i = 0; i < 3; ++i)
    fast(x);
  const graphopt::Explanation explanation = fast.explain();
  ASSERT_EQ(explanation.segments.size(), 1u);
  const std::string &text = explanation.segments[0].graph;
  const graphopt::ir::Graph graph = graphopt::ir::parseGraph(text);
  graphopt::ir::Diagnostics diagnostics("segment", text);
  EXPECT_TRUE(graphopt::ir::verify(graph, diagnostics, &graphopt::runtime::dispatcherCatalog())) << text;
  EXPECT_EQ(graphopt::ir::print(graph), text);
  EXPECT_NE(text.find("param %up.weight"), text.npos) << text;
}

TEST(Shadow, stancesDecideWhatANewShapeMayDo) {
  auto fast = graphopt::compile([](const Tensor &x) { return torch::relu(x) * 2; });
  Tensor known = torch::randn({3}), other = torch::randn({4});
  fast(known);
  fast(known);
  {
    graphopt::StanceGuard guard(graphopt::Stance::failOnRecompile);
    EXPECT_TRUE(torch::equal(fast(known), torch::relu(known) * 2));
    try {
      fast(other);
      FAIL() << "nothing was thrown";
    } catch (const graphopt::Error &error) {
      EXPECT_NE(std::string(error.what()).find("'self' is f32[4], recorded f32[3]"), std::string::npos)
          << error.what();
    }
  }
  {
    graphopt::StanceGuard guard(graphopt::Stance::eagerOnRecompile);
    EXPECT_TRUE(torch::equal(fast(other), torch::relu(other) * 2));
  }
  EXPECT_EQ(fast.explain().shadow.recordings, 1u) << fast.explain();
  {
    graphopt::StanceGuard guard(graphopt::Stance::forceEager);
    EXPECT_TRUE(torch::equal(fast(known), torch::relu(known) * 2));
  }
  EXPECT_EQ(fast.explain().shadow.calls, 5u) << fast.explain();
}

TEST(Shadow, beyondTheLimitCallsRunEagerlyAndSayWhy) {
  auto fast = graphopt::compile([](const Tensor &x) { return torch::relu(x) * 2; }, {.recompileLimit = 2});
  for (int round = 0; round < 3; ++round)
    for (int64_t size = 1; size < 6; ++size) {
      Tensor x = torch::randn({size});
      EXPECT_TRUE(torch::equal(fast(x), torch::relu(x) * 2));
    }
  const graphopt::Explanation explanation = fast.explain();
  EXPECT_EQ(explanation.shadow.recordings, 2u) << explanation;
  EXPECT_EQ(explanation.shadow.overLimitCalls, 9u) << explanation;
  EXPECT_EQ(explanation.shadow.shadowedCalls, 4u) << explanation; // the first two shapes still serve
}

/// A number that decides more than numbers (0) is no argument of its row, another one is: they do not begin
/// alike.
TEST(Shadow, anotherPathDoesNotBringItsNumbers) {
  auto code = [](const Tensor &x, double number, int kind) {
    const Tensor y = x + number;
    return kind == 0 ? torch::tanh(y) : kind == 1 ? torch::sigmoid(y) : torch::relu(y);
  };
  auto fast = graphopt::compile(code);
  const Tensor x = torch::randn({3});
  for (double number : {0.0, 0.25, 1.0, 0.75, 0.0, -0.0, 0.5})
    for (int kind : {0, 1, 2, 1, 0})
      ASSERT_TRUE(torch::equal(fast(x, number, kind), code(x, number, kind)))
          << number << ", " << kind << "\n"
          << fast.explain();
  auto other = graphopt::compile(code);
  for (auto [number, kind] : {std::pair(0.0, 0), {0.25, 1}, {0.0, 1}, {0.25, 0}})
    ASSERT_TRUE(torch::equal(other(x, number, kind), code(x, number, kind))) << number << ", " << kind << "\n"
                                                                             << other.explain();
}

/// kB of memory the process has.
size_t residentKilobytes() {
  size_t pages = 0, resident = 0;
  std::FILE *file = std::fopen("/proc/self/statm", "r");
  if (std::fscanf(file, "%zu %zu", &pages, &resident) != 2)
    resident = 0;
  std::fclose(file);
  return resident * 4;
}

TEST(Shadow, manyMixedCallsKeepMemoryFlat) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer keeps freed memory back";
#endif
  torch::Tensor state = torch::zeros({64});
  std::vector<Tensor> kept;
  auto fast = graphopt::compile([&](const Tensor &x, int kind) {
    Tensor y = torch::tanh(x) * (kind % 5);
    if (kind % 3 == 0)
      y = y + y.sum().item<float>();
    state = state * 0.9 + y.detach();
    if (kind % 7 == 0)
      kept = {y, y.view({8, 8})};
    return y;
  });
  auto calls = [&](int count) {
    for (int i = 0; i < count; ++i) {
      Tensor y = fast(torch::randn({64}).requires_grad_(i % 2 == 0), i);
      if (y.requires_grad())
        y.sum().backward();
    }
  };
  calls(2000);
  const size_t before = residentKilobytes();
  calls(10000);
  EXPECT_LE(residentKilobytes(), before + 2048) << fast.explain();
}

/// A program that a loaded archive holds, with parameters, a buffer, an attribute and a constant.
torch::jit::Module loadedModule() {
  torch::jit::Module module("Loaded");
  module.register_parameter("weight", torch::randn({4, 4}), false);
  module.register_buffer("mean", torch::randn({4}));
  module.register_attribute("table", c10::TensorType::get(), torch::randn({4}));
  module.define(R"(
    def forward(self, x):
      scale = self.weight.view(16)[0:4] + self.mean.view(2, 2).view(4)
      return (x * scale.view(1, 4) + self.table.view(1, 4)) @ self.weight.t()
  )");
  std::stringstream archive;
  module.save(archive);
  return torch::jit::load(archive);
}

TEST(Shadow, tensorsOfALoadedArchiveAreNoMemoryOfTheHost) {
  torch::jit::Module module = loadedModule();
  auto fast = graphopt::compile(module);
  for (int i = 0; i < 4; ++i) {
    torch::NoGradGuard noGrad;
    Tensor x = torch::randn({3, 4});
    ASSERT_TRUE(torch::equal(fast(x).tensor(), module.forward({x}).toTensor())) << fast.explain();
  }
  const graphopt::ShadowCounters shadow = fast.explain().shadow;
  EXPECT_EQ(shadow.borders, 0u) << fast.explain();
  EXPECT_EQ(shadow.directOperators, 0u) << fast.explain();
  EXPECT_EQ(shadow.recordings, 1u) << fast.explain();
}

TEST(Shadow, memoryThatTheHostOverwritesIsReadAtOnce) {
  std::vector<float> memory(4, 1);
  auto code = [&](const Tensor &x) {
    memory[0] = 2;
    Tensor mine = torch::from_blob(memory.data(), {4});
    Tensor sum = x + mine;
    memory[0] = 3;
    return sum * mine;
  };
  auto fast = graphopt::compile(code);
  for (int i = 0; i < 4; ++i) {
    Tensor x = torch::randn({4});
    ASSERT_TRUE(torch::equal(fast(x), code(x))) << i << fast.explain();
  }
}

/// Views that the program makes of two tensors of one memory, with a value read in between.
TEST(Shadow, tensorsOfOneMemoryMayLieApartOtherwise) {
  auto part = [](const Tensor &a, const Tensor &b) {
    Tensor sum = a.slice(0, 1, 4) + 1;
    Tensor view = b.slice(0, 1, 3);
    const bool isFinite = sum.isfinite().all().item<bool>();
    return std::vector{sum, view, a.slice(0, isFinite ? 2 : 3), b.slice(0, 3)};
  };
  auto code = [&](const std::vector<Tensor> &x) {
    std::vector<Tensor> all;
    for (size_t i = 0; i < x.size(); i += 2)
      for (const Tensor &result : part(x[i], x[i + 1]))
        all.push_back(result);
    return all;
  };
  auto fast = graphopt::compile(code);
  graphopt::ShadowCounters first;
  for (int i = 0; i < 6; ++i) {
    Tensor memory = torch::randn({40});
    std::vector<Tensor> x;
    for (int begin : {0, 8, 4, 8, 12, 0, i, 2 * i})
      x.push_back(memory.slice(0, begin, begin + 4));
    std::vector<Tensor> want = code(x), got = fast(x);
    for (size_t k = 0; k < want.size(); ++k) {
      ASSERT_TRUE(torch::equal(want[k], got[k])) << i << " result " << k << fast.explain();
      ASSERT_EQ(want[k].storage_offset(), got[k].storage_offset()) << i << " result " << k;
    }
    if (i == 0)
      first = fast.explain().shadow;
  }
  EXPECT_EQ(fast.explain().shadow.divergences, first.divergences) << fast.explain();
  EXPECT_EQ(fast.explain().shadow.recordings, first.recordings) << fast.explain();
}

/// Calls that leave a segment at its second row, and go on with more of the same memory.
TEST(Shadow, offsetsAfterADivergence) {
  bool other = false;
  auto code = [&](const Tensor &x) {
    Tensor a = x.slice(0, 1, 5);
    Tensor b = other ? a.tanh() : a.exp();
    Tensor c = a.slice(0, 2);
    return std::vector{b, c, c.slice(0, 1) + 1};
  };
  auto fast = graphopt::compile(code);
  for (int i = 0; i < 12; ++i) {
    other = i % 3 == 1;
    Tensor memory = torch::randn({40}), x = memory.slice(0, i, i + 20);
    std::vector<Tensor> want = code(x), got = fast(x);
    for (size_t k = 0; k < want.size(); ++k) {
      ASSERT_TRUE(torch::equal(want[k], got[k])) << i << " result " << k << fast.explain();
      ASSERT_EQ(want[k].storage_offset(), got[k].storage_offset()) << i << " result " << k;
    }
  }
}

TEST(Shadow, onlyAMaskThatIndexesMakesSizesOfValues) {
  auto ofMask = graphopt::compile([](const Tensor &mask, const Tensor &at) { return mask.index({at, at}); });
  auto byMask = graphopt::compile([](const Tensor &mask, const Tensor &x) { return x.index({mask}) + 1; });
  for (int i = 0; i < 4; ++i) {
    Tensor mask = torch::rand({5, 5}) > 0.5, at = torch::randint(0, 5, {7}), x = torch::randn({5, 5});
    ASSERT_TRUE(torch::equal(ofMask(mask, at), mask.index({at, at}))) << ofMask.explain();
    ASSERT_TRUE(torch::equal(byMask(mask, x), x.index({mask}) + 1)) << byMask.explain();
  }
  EXPECT_EQ(ofMask.explain().shadow.directOperators, 0u) << ofMask.explain();
  EXPECT_GT(byMask.explain().shadow.directOperators, 0u) << byMask.explain();
}

TEST(Shadow, aBreakUnderFullgraphComesAfterAllBeforeIt) {
  Tensor state = torch::zeros({3});
  auto fast = graphopt::compile(
      [&](const Tensor &x, bool reads) {
        state.add_(x);
        Tensor y = torch::tanh(x);
        return reads ? y + y.sum().item<float>() : y + state;
      },
      {.fullgraph = true});
  Tensor x = torch::ones({3});
  EXPECT_TRUE(torch::equal(fast(x, false), torch::tanh(x) + 1));
  for (int i = 0; i < 2; ++i) { // the third time the branch itself is a break
    try {
      fast(x, true);
      FAIL() << "nothing was thrown in round " << i;
    } catch (const graphopt::Error &error) {
      EXPECT_NE(std::string(error.what()).find("item"), std::string::npos) << error.what();
    }
    EXPECT_EQ(state.data_ptr<float>()[0], i + 2); // the write before the break is done, once
  }
}

/// A place where calls went different ways twice is a border, and so a break.
TEST(Shadow, aBranchUnderFullgraphIsABreakOnceItIsABorder) {
  int kind = 0;
  auto code = [&](const Tensor &x) {
    const Tensor y = torch::exp(x);
    const graphopt::Scope scope("head");
    return kind == 0 ? torch::tanh(y) : kind == 1 ? torch::relu(y) : torch::sigmoid(y);
  };
  auto plain = graphopt::compile(code);
  auto fast = graphopt::compile(code, {.fullgraph = true});
  const Tensor x = torch::randn({3});
  int thrown = 0;
  for (int i = 0; i < 9; ++i) {
    kind = i % 3;
    EXPECT_TRUE(torch::equal(plain(x), code(x)));
    try {
      EXPECT_TRUE(torch::equal(fast(x), code(x)));
    } catch (const graphopt::Error &error) {
      ++thrown;
      const std::string text = error.what();
      EXPECT_NE(text.find("at head: calls went different ways"), std::string::npos) << text;
    }
  }
  EXPECT_EQ(thrown, 7) << fast.explain(); // all but the first, and the first that went another way
  EXPECT_EQ(plain.explain().shadow.borders, 7u) << plain.explain();
}

TEST(Shadow, whatThrowsIsNoBreak) {
  auto fast = graphopt::compile(
      [](const Tensor &x) -> Tensor {
        Tensor y = x * 2;
        throw std::runtime_error("mine " + std::to_string(y.size(0)));
      },
      {.fullgraph = true});
  for (int i = 0; i < 3; ++i)
    EXPECT_THROW(fast(torch::ones({3})), std::runtime_error);
  EXPECT_EQ(fast.explain().shadow.borders, 0u) << fast.explain();
}

TEST(Shadow, explanationsAfterCutsAndResetsNameLiveSegments) {
  int kind = 0;
  auto fast = graphopt::compile([&](const Tensor &x) {
    Tensor y = x + 1;
    y = kind == 0 ? torch::tanh(y) : kind == 1 ? torch::relu(y) : torch::sigmoid(y);
    return y * 2;
  });
  auto calls = [&] {
    for (int i = 0; i < 30; ++i) {
      kind = i % 3;
      fast(torch::ones({3}));
      std::set<int> numbers{-1};
      const graphopt::Explanation explanation = fast.explain();
      for (const graphopt::SegmentInfo &segment : explanation.segments)
        numbers.insert(segment.number);
      for (const graphopt::SegmentInfo &segment : explanation.segments)
        for (const auto &[next, count] : segment.next)
          EXPECT_TRUE(numbers.contains(next)) << next << explanation;
    }
  };
  calls();
  fast.reset();
  EXPECT_TRUE(fast.explain().segments.empty());
  calls();
}

/// An operator that may draw, and was told not to, does not tie a segment to the generator's state.
TEST(Shadow, onlyADropoutThatDropsIsADraw) {
  auto borders = [](bool train) {
    auto code = [=](const Tensor &x) {
      Tensor y = torch::dropout(x, 0.5, train).relu();
      torch::manual_seed(3);
      return torch::dropout(y + 1, 0.5, train);
    };
    auto fast = graphopt::compile(code);
    for (int i = 0; i < 4; ++i) {
      Tensor x = torch::randn({5});
      torch::manual_seed(i);
      Tensor y = code(x);
      torch::manual_seed(i);
      EXPECT_TRUE(torch::equal(fast(x), y)) << i;
    }
    return fast.explain().shadow.borders;
  };
  EXPECT_EQ(borders(false), 0u);
  EXPECT_GT(borders(true), 0u);
}

/// Which segment comes first is guessed from the call before.
TEST(Shadow, callsThatBeginInTurnsAreNoDivergences) {
  int call = 0;
  auto code = [](int call, const Tensor &x) {
    Tensor y = call % 2 ? torch::tanh(x) : torch::sigmoid(x);
    double first = y[0].item<double>();
    return call % 3 ? y * first : torch::relu(y) + first;
  };
  auto fast = graphopt::compile([&](const Tensor &x) { return code(call, x); });
  uint64_t recordings = 0;
  for (call = 0; call < 24; ++call) {
    Tensor x = torch::randn({5});
    ASSERT_TRUE(torch::equal(fast(x), code(call, x))) << call << fast.explain();
    if (call == 11)
      recordings = fast.explain().shadow.recordings;
  }
  EXPECT_EQ(fast.explain().shadow.recordings, recordings) << fast.explain();
  EXPECT_EQ(fast.explain().shadow.divergences, 0u) << fast.explain();
}

TEST(Shadow, operatorsThatCannotBePutOffUseUpNoRecordings) {
  Tensor weight = torch::randn({10, 4}).requires_grad_(), offsets = torch::tensor({0, 2});
  auto code = [&](const Tensor &indices) {
    return std::get<0>(at::embedding_bag(weight, indices, offsets)) * 2 + 1;
  };
  auto fast = graphopt::compile(code, {.recompileLimit = 2});
  for (int i = 0; i < 12; ++i) {
    Tensor indices = torch::randint(10, {5});
    ASSERT_TRUE(torch::equal(fast(indices), code(indices)));
  }
  EXPECT_EQ(fast.explain().shadow.overLimitCalls, 0u) << fast.explain();
}

TEST(Shadow, thisProcessCanBeCaptured) { EXPECT_EQ(graphopt::capture::selfTest(), std::nullopt); }

} // namespace
