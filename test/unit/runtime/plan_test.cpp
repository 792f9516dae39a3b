// Plans: what is built from a graph, and that running one gives what the interpreter gives.
#include "runtime/content.h"
#include "runtime/execute.h"
#include "runtime/interpret.h"
#include "runtime/plan_io.h"

#include "graphopt/error.h"
#include "ir/parse.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <thread>

namespace graphopt::runtime {
namespace {
using at::Tensor;

Plan planOf(const std::string &text) { return buildPlan(ir::parseGraph(text)); }

std::vector<Tensor> runPlan(const Executor &executor, const Environment &environment) {
  std::vector<Tensor> inputs;
  for (const PlanInput &input : executor.plan().inputs)
    inputs.push_back(environment.at(input.name));
  return executor.run(inputs);
}

const CallStep &callAt(const Plan &plan, size_t i) { return std::get<CallStep>(plan.steps.at(i)); }

constexpr const char *kLayers = R"(graph @net version=1 stage=captured form=functional device=cpu {
  input  %x: f32[3, 8]
  param  %w: f32[8, 8]
  buffer %mean: f32[8]
  const  %k: i64[4] = [0, 2, 4, 6]
  %h: f32[3, 8] = aten.linear(%x, %w, none)
  %a, %b: f32[3, 4] = aten.chunk(&%h) {chunks=2, dim=1}
  %c: f32[3, 8] = aten.cat([%b, %a]) {dim=1}
  %u: f32[3, 8] = update (%c, %a) {
    %d: f32[3, 8] = aten.clone(%c)
    %v: f32[3, 4] = aten.slice.Tensor(&%d) {dim=1, start=0, end=4}
    aten.mul_.Tensor(&mut %v, %a)
    yield %d
  }
  scope "norm" {amp=bf16, grad=off}
  %l: bf16[3, 8] = aten.linear(%u, %w, none)
  scope ""
  %s: f32[3, 4] = aten.index_select(%u, %k) {dim=1}
  %m: f32[8] = aten.mean.dim(%u) {dim=[0]}
  %mean.1: f32[8] = aten.lerp.Scalar(%mean, %m) {weight=0.5}
  %row: f32[8] = aten.view(&%mean.1) {size=[8]}
  writeback %mean <- %mean.1
  return %l, %s, &%row, &%a, %k
})";

Environment layersInputs() {
  at::manual_seed(3);
  return {{"x", at::randn({3, 8})}, {"w", at::randn({8, 8}).requires_grad_(true)}, {"mean", at::zeros({8})}};
}

/// A backward that asks autograd, twice, the second time of a gradient.
constexpr const char *kJoint = R"(graph @joint version=1 stage=lowered device=cpu {
  input %x: f32[4]
  cotangent %d.y: f32[]
  scope "" {opaque=on}
  %h: f32[4] = aten.cumprod(%x) {dim=0}
  %y: f32[] = aten.prod(%h)
  scope ""
  %d.h: f32[4] = vjp (%h, %d.y) {
    scope "" {opaque=on}
    %r: f32[] = aten.prod(%h)
    yield [%r], [%d.y], [%h]
  }
  %d.x: f32[4] = vjp (%x, %d.h) {
    scope "" {opaque=on}
    %c: f32[4] = aten.cumprod(%x) {dim=0}
    yield [%c], [%d.h], [%x]
  }
  return %y, %d.x
})";

TEST(Plan, asksAutogradForGradientsOfTheDataOfEachRun) {
  const Executor executor(planFromJson(toJson(planOf(kJoint))));
  EXPECT_EQ(executor.plan(), planOf(kJoint));
  for (const Tensor &x : {at::arange(1, 5).to(at::kFloat), at::arange(0, 4).to(at::kFloat), at::zeros({4})}) {
    const Tensor leaf = x.clone().requires_grad_(), y = leaf.cumprod(0).prod(), given = at::full({}, 3.0f);
    y.backward(given);
    for (const Tensor &input : {x, leaf}) { // also of a tensor with a past
      const std::vector<Tensor> got = runPlan(executor, {{"x", input}, {"d.y", given}});
      EXPECT_TRUE(at::equal(got[0], y)) << got[0];
      EXPECT_TRUE(at::equal(got[1], leaf.grad())) << got[1];
      EXPECT_FALSE(got[0].requires_grad() || got[1].requires_grad());
    }
  }
}

/// A mask that is drawn, and drawn again; the second time on the way to an operator that may throw.
constexpr const char *kRedraw = R"(graph @again version=1 stage=lowered device=cpu {
  input %x: f32[8]
  input %row: i64[1]
  %s: u8[5056] = graphopt::rng_state() {device=cpu}
  %a: f32[8] = aten.bernoulli.p(%x) {p=0.5}
  %r: f32[8] = aten.rand_like(%x)
  %b: f32[8], %n: f32[1] = redraw (%s, %x, %row) {
    graphopt::set_rng_state(%s) {device=cpu}
    %c: f32[8] = aten.bernoulli.p(%x) {p=0.5}
    %i: f32[1] = aten.index_select(%c, %row) {dim=0}
    yield %c, %i
  }
  %t: f32[8] = aten.rand_like(%x)
  return %a, %b, %r, %t
})";

TEST(Plan, drawsAgainAndLeavesTheGeneratorAsItWas) {
  const Executor executor(planFromJson(toJson(planOf(kRedraw))));
  EXPECT_EQ(executor.plan(), planOf(kRedraw));
  const Tensor x = at::zeros({8}), row = at::zeros({1}, at::kLong);
  for (const bool interpreted : {true, false}) {
    at::manual_seed(7);
    const Tensor a = at::bernoulli(x, 0.5), r = at::rand_like(x), t = at::rand_like(x), after = at::rand({3});
    at::manual_seed(7);
    const Environment environment = {{"x", x}, {"row", row}};
    const std::vector<Tensor> got =
        interpreted ? interpret(ir::parseGraph(kRedraw), environment) : runPlan(executor, environment);
    EXPECT_TRUE(at::equal(got[0], a) && at::equal(got[1], a) && at::equal(got[2], r) && at::equal(got[3], t));
    EXPECT_TRUE(at::equal(at::rand({3}), after));
  }
}

TEST(Plan, anErrorWhileDrawingAgainLeavesTheGeneratorAsItWas) {
  const Executor executor(planOf(kRedraw));
  const Environment environment = {{"x", at::zeros({8})}, {"row", at::full({1}, 9, at::kLong)}};
  for (const bool interpreted : {true, false}) {
    at::manual_seed(7);
    at::bernoulli(at::zeros({8}), 0.5);
    at::rand({8});
    const Tensor after = at::rand({3});
    at::manual_seed(7);
    EXPECT_THROW(interpreted ? interpret(ir::parseGraph(kRedraw), environment)
                             : runPlan(executor, environment),
                 c10::Error);
    EXPECT_TRUE(at::equal(at::rand({3}), after));
  }
}

TEST(Plan, refusesStepsThatDrawAgainTwice) {
  Plan plan = planOf(kRedraw);
  plan.steps.emplace_back(RngStep{});
  EXPECT_THROW(Executor{plan}, Error);
  plan.steps.back() = RngStep{{"cpu"}, true};
  EXPECT_THROW(Executor{plan}, Error); // none ends it
}

/// Sizes of each run: in attributes, in a number, in the layout of a gradient.
constexpr const char *kSymbolic = R"(graph @sizes version=1 stage=lowered device=cpu {
  sym B in [2, inf]
  sym T in [2, inf]
  input %x: f32[B, T]
  %t: f32[T, B] strides=[1, T] = aten.t(&%x)
  %c: f32[T, B] = aten.clone(%t) {memory_format=contiguous}
  %v: f32[B*T] = aten.view(&%c) {size=[B*T]}
  %n: f32[B*T] = aten.add.Tensor(%v, 2*B + -1)
  %d: f32[B*T] = aten.div.Scalar(%n) {other=B*T}
  %g: f32[B, T] = vjp (%x, %d) {
    scope "" {opaque=on}
    %o: f32[B*T] = aten.reshape(&%x) {shape=[B*T]}
    %q: f32[B*T] = aten.cumprod(%o) {dim=0}
    yield [%q], [%d], [%x]
  }
  scope ""
  %w: f32[B*T] = aten.view(&%g) {size=[B*T]}
  return %d, %w
})";

TEST(Plan, bringsSizesToEachRun) {
  const Executor executor(planFromJson(toJson(planOf(kSymbolic))));
  EXPECT_EQ(executor.plan(), planOf(kSymbolic));
  for (const auto &[b, t] : {std::pair<int64_t, int64_t>{2, 3}, {5, 2}, {1, 1}}) {
    const Tensor x = at::rand({b, t}), leaf = x.clone().requires_grad_();
    const Tensor d = (x.t().contiguous().view(-1) + (2 * b - 1)).div(b * t);
    leaf.reshape(-1).cumprod(0).backward(d);
    const std::vector<Tensor> got = executor.run({x}, {{"T", t}, {"B", b}});
    EXPECT_TRUE(at::equal(got[0], d)) << got[0];
    EXPECT_TRUE(at::equal(got[1], leaf.grad().view(-1))) << got[1];
    const std::vector<Tensor> interpreted = interpret(ir::parseGraph(kSymbolic), {{"x", x}});
    EXPECT_TRUE(at::equal(got[0], interpreted[0]) && at::equal(got[1], interpreted[1]));
  }
  try {
    executor.run({at::rand({2, 2})}, {{"B", 2}});
    FAIL();
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("needs a value for T"), std::string::npos) << error.what();
  }
}

TEST(Plan, inputsConstantsAndReleases) {
  Plan plan = planOf(kLayers);
  ASSERT_EQ(plan.inputs.size(), 3u);
  EXPECT_EQ(plan.inputs[0].name, "x");
  EXPECT_EQ(plan.inputs[2].kind, PlanInput::Kind::State);
  ASSERT_EQ(plan.constants.size(), 1u);
  EXPECT_EQ(plan.ambients.size(), 3u); // grad on; autocast; the plain state of copies
  // %h stays: `return &%a` makes %a on it again. %c: last used by the clone of the update, whose region is
  // inlined.
  EXPECT_EQ(callAt(plan, 1).op, "aten.chunk");
  EXPECT_TRUE(callAt(plan, 1).release.empty());
  EXPECT_EQ(callAt(plan, 3).op, "aten.clone");
  EXPECT_EQ(callAt(plan, 3).release, callAt(plan, 2).results);
  EXPECT_EQ(callAt(plan, 5).op, "aten.mul_.Tensor");
  EXPECT_TRUE(callAt(plan, 5).results.empty());
}

TEST(Plan, runsAsTheInterpreterDoes) {
  ir::Graph graph = ir::parseGraph(kLayers);
  Executor executor(buildPlan(graph));
  for (bool grad : {true, false}) {
    Environment one = layersInputs(), two = layersInputs();
    one["w"].requires_grad_(grad);
    two["w"].requires_grad_(grad);
    auto expected = interpret(graph, one), actual = runPlan(executor, two);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_TRUE(at::equal(actual[i], expected[i])) << i;
      EXPECT_EQ(actual[i].requires_grad(), expected[i].requires_grad()) << i;
      EXPECT_EQ(actual[i].is_view(), expected[i].is_view()) << i;
    }
    EXPECT_TRUE(at::equal(one["mean"], two["mean"]));
    EXPECT_TRUE(actual[2].is_alias_of(two["mean"]));
    EXPECT_EQ(one["mean"]._version(), two["mean"]._version());
  }
}

// A view of a parameter says requires_grad under no_grad too, when autograd's layers made it. matmul asks for
// that before it folds a left side whose dims lie in memory in another order, and folding rounds otherwise
// than not.
TEST(Plan, compositesAndViewsOfParametersAreEagersBits) {
  ir::Graph graph = ir::parseGraph(R"(graph @net version=1 stage=captured form=functional device=cpu {
  input %x: f32[4, 7, 64] strides=[1, 4, 28]
  param %w: f32[64, 64]
  scope "" {grad=off}
  %l: f32[4, 7, 64] = aten.linear(%x, %w, none)
  %t: f32[64, 64] strides=[1, 64] = aten.t(&%w)
  %m: f32[4, 7, 64] = aten.matmul(%x, %t)
  return %l, %m
})");
  at::manual_seed(5);
  Tensor x = at::randn({64, 7, 4}).permute({2, 1, 0}), w = at::randn({64, 64}).requires_grad_(true);
  Executor executor(buildPlan(graph));
  at::NoGradGuard noGrad;
  std::vector<Tensor> actual = runPlan(executor, {{"x", x}, {"w", w}}),
                      expected = {at::linear(x, w), at::matmul(x, w.t())};
  ASSERT_FALSE(at::equal(expected[0], at::linear(x, w.detach())))
      << "LibTorch rounds alike: this tests nothing";
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(at::equal(actual[i], expected[i])) << i;
}

TEST(Plan, gradientsFlowThroughARun) {
  Executor executor(planOf(R"(graph @net version=1 stage=captured form=functional device=cpu {
  input %x: f32[3, 8]
  param %w: f32[8, 8]
  %h: f32[3, 8] = aten.linear(%x, %w, none)
  %y: f32[3, 8] = aten.tanh(%h)
  return %y
})"));
  Environment e = layersInputs();
  auto out = runPlan(executor, e);
  out[0].sum().backward();
  Tensor w = e["w"].detach().requires_grad_(true);
  at::linear(e["x"], w).tanh().sum().backward();
  EXPECT_TRUE(at::equal(e["w"].grad(), w.grad()));
}

TEST(Plan, returnedConstantsAreCopies) {
  Executor executor(planOf(kLayers));
  Environment e = layersInputs();
  runPlan(executor, e)[4].zero_();
  EXPECT_EQ(runPlan(executor, e)[4].sum().item<int64_t>(), 12);
}

TEST(Plan, valuesAreFreedAtTheirLastUse) {
  // Ten tensors of 1 MB in a chain: at most three live at a time.
  std::string text =
      "graph @chain version=1 stage=captured form=functional device=cpu {\n  input %x: f32[262144]\n";
  std::string last = "%x";
  for (int i = 0; i < 10; ++i) {
    std::string name = "%v" + std::to_string(i);
    text += "  " + name + ": f32[262144] = aten.exp(" + last + ")\n";
    last = name;
  }
  Plan plan = planOf(text + "  return " + last + "\n}");
  size_t released = 0;
  for (const Step &step : plan.steps)
    released += std::get<CallStep>(step).release.size();
  EXPECT_EQ(released, 9u);
}

TEST(Plan, writebackOrderAndSwap) {
  Executor executor(planOf(R"(graph @swap version=1 stage=captured form=functional device=cpu {
  buffer %a: f32[2]
  buffer %b: f32[2]
  writeback %a <- %b
  writeback %b <- %a
  return &%a
})"));
  Environment e = {{"a", at::ones({2})}, {"b", at::zeros({2})}};
  auto out = runPlan(executor, e);
  EXPECT_TRUE(out[0].is_same(e["a"]));
  EXPECT_EQ(e["a"].sum().item<float>(), 0);
  EXPECT_EQ(e["b"].sum().item<float>(), 2);
}

TEST(Plan, nothingIsCommittedWhenAnOperatorThrows) {
  Executor executor(planOf(R"(graph @g version=1 stage=captured form=functional device=cpu {
  buffer %a: f32[2]
  input %i: i64[1]
  %a.1: f32[2] = aten.add.Scalar(%a) {other=1}
  %y: f32[1] = aten.index_select(%a.1, %i) {dim=0}
  writeback %a <- %a.1
  return %y
})"));
  Environment e = {{"a", at::zeros({2})}, {"i", at::full({1}, 7, at::kLong)}};
  EXPECT_THROW(runPlan(executor, e), c10::Error);
  EXPECT_EQ(e["a"].sum().item<float>(), 0);
  EXPECT_TRUE(at::GradMode::is_enabled());
}

TEST(Plan, groupsAndPrimsOfLaterStages) {
  const char *text = R"(graph @g version=1 stage=fused device=cpu {
  input %x: bf16[4, 8]
  %y: f32[4, 1], %n: f32[4, 8] = group "k0" rows (%x) {
    %0: f32[4, 8] = prim.cast(%x) {dtype=f32}
    %1: f32[4, 1] = prim.sum(%0) {dim=[1], keepdim=true}
    %2: f32[4, 8] = prim.broadcast(%1) {size=[4, 8]}
    %3: f32[4, 8] = prim.div(%0, %2)
    %4: f32[4, 8] = prim.mul(%3, 0.1)
    yield %1, %4
  }
  %t: f32[8, 4] = prim.transpose(%n) {dims=[1, 0]}
  return %y, %n, %t
})";
  Environment e = {{"x", at::randn({4, 8}, at::kBFloat16)}};
  auto expected = interpret(ir::parseGraph(text), e), actual = runPlan(Executor(planOf(text)), e);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(at::equal(actual[i], expected[i])) << i;
  EXPECT_TRUE(actual[2].is_contiguous());
}

TEST(Plan, fourThreadsShareOneExecutor) {
  Executor executor(planOf(kLayers));
  Environment base = layersInputs();
  auto expected = runPlan(executor, base);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        Environment e = base;
        e["mean"] = at::zeros({8});
        auto out = runPlan(executor, e);
        wrong[t] += !at::equal(out[0], expected[0]) || !at::equal(out[1], expected[1]);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

std::string failure(const std::string &text) {
  try {
    planOf(text);
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), Error::Kind::User);
    return error.what();
  }
  return "no error";
}

TEST(Plan, whatCannotBePlannedIsSaid) {
  auto graph = [](const std::string &form, const std::string &body) {
    return "graph @g version=1 stage=captured form=" + form + " device=cpu {\n" + body + "\n}";
  };
  EXPECT_NE(failure(graph("raw", "  input %x: f32[2]\n  return %x")).find("run functionalize"),
            std::string::npos);
  EXPECT_NE(
      failure(graph("functional", "  input %x: f32[2]\n  border #0 read %x\n  return %x")).find("border"),
      std::string::npos);
  EXPECT_NE(failure(graph("functional", "  sym B in [1, 4]\n  const %k: i64[B] = [1, 2]\n  return %k"))
                .find("fixed sizes"),
            std::string::npos);
  EXPECT_NE(
      failure(graph("functional", "  input %x: f32[2]\n  %y: f32[2] = aten.bernoulli(%x) {generator=opaque "
                                  "\"Generator\"}\n  return %y"))
          .find("cannot be run"),
      std::string::npos);
}

TEST(PlanText, returnsEqual) {
  Plan plan = planOf(kLayers);
  plan.settings = {"warn", "high"};
  plan.constants[0].content.items[0] = {};
  for (double value : {0.1, -0.0, std::numeric_limits<double>::infinity(),
                       std::numeric_limits<double>::quiet_NaN(), 5e-324}) {
    Scalar scalar;
    scalar.kind = Scalar::Kind::Complex;
    scalar.real = value;
    scalar.imaginary = -1;
    plan.constants[0].content.items.push_back(scalar);
  }
  Plan again = planFromJson(toJson(plan));
  EXPECT_EQ(again, plan);
  EXPECT_EQ(toJson(again), toJson(plan));
}

TEST(PlanText, aReadPlanRuns) {
  Executor one(planOf(kLayers)), two(planFromJson(toJson(one.plan())));
  Environment a = layersInputs(), b = layersInputs();
  auto x = runPlan(one, a), y = runPlan(two, b);
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_TRUE(at::equal(x[i], y[i]));
}

std::string readFailure(const std::string &text) {
  try {
    Executor executor(planFromJson(text));
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), Error::Kind::User);
    return error.what();
  }
  return "no error";
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(PlanText, foreignTextsAreRefused) {
  std::string good = toJson(planOf(kLayers));
  for (std::string text :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"), std::string("{}"),
        std::string(R"({"format": "graphopt-plan"})"), good.substr(0, good.size() / 2)})
    EXPECT_NE(readFailure(text), "no error") << text;
  EXPECT_NE(readFailure(replaced(good, "\"version\": 3", "\"version\": 1")).find("version is 1"),
            std::string::npos);
  EXPECT_NE(readFailure(replaced(good, "\"slots\": ", "\"slots\": 9999999")).find("slots for"),
            std::string::npos);
  EXPECT_NE(readFailure(replaced(good, "\"ambient\": 0", "\"ambient\": 77")).find("ambient state 77"),
            std::string::npos);
  EXPECT_NE(readFailure(replaced(good, "\"slot\": 0", "\"slot\": -5")).find("slot -5"), std::string::npos);
  EXPECT_NE(readFailure(replaced(good, "\"matmul\": \"\"", "\"matmul\": \"fast\"")).find("fast"),
            std::string::npos);
  EXPECT_NE(readFailure(replaced(good, "aten.linear", "aten.nothing")).find("aten.nothing"),
            std::string::npos);
  EXPECT_NE(readFailure(replaced(good, "aten.linear", "aten.relu")).find("expected 1"), std::string::npos);
  EXPECT_NE(readFailure(replaced(good, "aten.cat", "aten.add_.Tensor")), "no error");
  EXPECT_NE(readFailure(replaced(good, "\"kind\": \"tensor\"", "\"kind\": \"purple\"")).find("purple"),
            std::string::npos);
  EXPECT_NE(readFailure(replaced(good, "\"dtype\": \"i64\"", "\"dtype\": \"i65\"")).find("i65"),
            std::string::npos);
  const std::string sized = toJson(planOf(kSymbolic));
  for (const char *size : {"B*T*N", "B*", "B T", "1 / B", ""})
    EXPECT_NE(readFailure(replaced(sized, "\"d\": \"B*T\"", std::string("\"d\": \"") + size + "\""))
                  .find("no size"),
              std::string::npos)
        << size;
}

TEST(PlanText, noPrefixOrByteFlipCrashes) {
  for (const char *graph : {kLayers, kJoint, kSymbolic}) {
    std::string good = toJson(planOf(graph));
    for (size_t i = 0; i < good.size(); i += 7) {
      std::string bent = good;
      bent[i] = static_cast<char>(bent[i] ^ 0x11);
      try {
        Executor executor(planFromJson(bent));
      } catch (const Error &error) {
        EXPECT_EQ(error.kind(), Error::Kind::User) << error.what();
      }
    }
  }
}

TEST(PlanText, deepNestingIsRefused) {
  std::string good = toJson(planOf(kLayers));
  std::string deep(100000, '[');
  EXPECT_NE(readFailure(replaced(good, "\"value\": [", "\"value\": [" + deep)), "no error");
}

} // namespace
} // namespace graphopt::runtime
