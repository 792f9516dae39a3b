// The interpreter against direct ATen calls: stages, writes, returned views, ambient state, prims, the f64
// run, errors.
#include "runtime/interpret.h"

#include "graphopt/error.h"
#include "ir/parse.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace graphopt::runtime {
namespace {
using at::Tensor;

std::vector<Tensor> run(const std::string &text, const Environment &environment,
                        const InterpretOptions &options = {}) {
  return interpret(ir::parseGraph(text), environment, options);
}

std::string failure(const std::string &text, const Environment &environment,
                    const InterpretOptions &options = {}) {
  try {
    run(text, environment, options);
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), Error::Kind::User);
    return error.what();
  }
  return "no error";
}

TEST(Interpret, rawOpsAreEagersBits) {
  at::manual_seed(0);
  Tensor x = at::randn({3, 5}), w = at::randn({4, 5}), b = at::randn({4});
  auto out = run(R"(graph @g version=1 stage=captured form=raw device=cpu {
  input %x: f32[3, 5]
  param %w: f32[4, 5]
  param %b: f32[4]
  %h: f32[3, 4] = aten.linear(%x, %w, %b)
  %a, %c: f32[3, 2] = aten.chunk(&%h) {chunks=2, dim=1}
  %y: f32[6, 2] = aten.cat([%a, %c])
  %m: f32[6], %i: i64[6] = aten.max.dim(%y) {dim=1}
  return %y, %m, none, %i
})",
                 {{"x", x}, {"w", w}, {"b", b}});
  Tensor y = at::cat(at::chunk(at::linear(x, w, b), 2, 1));
  auto [m, i] = at::max(y, 1);
  ASSERT_EQ(out.size(), 4u);
  EXPECT_TRUE(at::equal(out[0], y));
  EXPECT_TRUE(at::equal(out[1], m));
  EXPECT_FALSE(out[2].defined());
  EXPECT_TRUE(at::equal(out[3], i));
}

TEST(Interpret, optionalListsAndMissingTensors) {
  at::manual_seed(0);
  Tensor x = at::randn({3, 5}), ids = at::tensor({int64_t(0), int64_t(2)});
  auto out = run(R"(graph @g version=1 stage=captured form=raw device=cpu {
  input %x: f32[3, 5]
  input %ids: i64[2]
  %y: f32[3, 2] = aten.index.Tensor(%x, [none, %ids])
  %z: f32[3, 5] = aten.layer_norm(%x, none, none) {normalized_shape=[5]}
  %k: f32[3, 5] = aten.add.Tensor(%x, 2)
  return %y, %z, %k
})",
                 {{"x", x}, {"ids", ids}});
  EXPECT_TRUE(at::equal(out[0], x.index({at::indexing::Slice(), ids})));
  EXPECT_TRUE(at::equal(out[1], at::layer_norm(x, {5})));
  EXPECT_TRUE(at::equal(out[2], x + 2));
}

TEST(Interpret, rawWritesReachTheCallersTensors) {
  Tensor x = at::zeros({2, 3}), y = at::ones({3});
  auto out = run(R"(graph @g version=1 stage=captured form=raw device=cpu {
  input %x: f32[2, 3]
  input %y: f32[3]
  %v: f32[3] = aten.select.int(&%x) {dim=0, index=1}
  aten.add_.Tensor(&mut %v, %y) {alpha=2}
  return &%v
})",
                 {{"x", x}, {"y", y}});
  EXPECT_EQ(x.sum().item<float>(), 6);
  EXPECT_TRUE(out[0].is_alias_of(x));
  EXPECT_EQ(out[0].storage_offset(), 3);
}

constexpr const char *kUpdate = R"(graph @g version=1 stage=captured form=functional device=cpu {
  buffer %h: f32[2, 3]
  input %y: f32[3]
  %h.1: f32[2, 3] = update (%h, %y) {
    %c: f32[2, 3] = aten.clone(%h)
    %v: f32[3] = aten.select.int(&%c) {dim=0, index=1}
    aten.add_.Tensor(&mut %v, %y)
    yield %c
  }
  %s: f32[] = aten.sum(%h)
  %row: f32[3] = aten.select.int(&%h.1) {dim=0, index=1}
  %old: f32[3] = aten.select.int(&%h) {dim=0, index=1}
  writeback %h <- %h.1
  return %s, &%row, &%old, &%h.1
})";

TEST(Interpret, updatesCommitLastAndReturnedViewsAreOfTheOriginal) {
  Tensor h = at::zeros({2, 3}), y = at::ones({3});
  auto out = run(kUpdate, {{"h", h}, {"y", y}});
  EXPECT_EQ(out[0].item<float>(), 0); // the value before the commit
  EXPECT_EQ(h.sum().item<float>(), 3);
  for (size_t i : {1, 2}) {
    EXPECT_TRUE(out[i].is_alias_of(h));
    EXPECT_EQ(out[i].storage_offset(), 3);
    EXPECT_EQ(out[i].sum().item<float>(), 3);
  }
  EXPECT_TRUE(out[3].is_same(h));
}

TEST(Interpret, writebacksSeeValuesFromBeforeAllCommits) {
  Tensor a = at::ones({2}), b = at::zeros({2});
  run(R"(graph @swap version=1 stage=captured form=functional device=cpu {
  buffer %a: f32[2]
  buffer %b: f32[2]
  writeback %a <- %b
  writeback %b <- %a
  return
})",
      {{"a", a}, {"b", b}});
  EXPECT_EQ(a.sum().item<float>(), 0);
  EXPECT_EQ(b.sum().item<float>(), 2);
}

TEST(Interpret, writebackIntoParametersAndInferenceTensors) {
  const char *text = R"(graph @g version=1 stage=captured form=functional device=cpu {
  param %p: f32[2]
  %q: f32[2] = aten.add.Scalar(%p) {other=1}
  writeback %p <- %q
  return
})";
  Tensor p = at::zeros({2}).requires_grad_(true);
  run(text, {{"p", p}});
  EXPECT_EQ(p.sum().item<float>(), 2);
  EXPECT_TRUE(p.is_leaf() && p.requires_grad());
  Tensor inferred = [] {
    c10::InferenceMode guard;
    return at::zeros({2});
  }();
  run(text, {{"p", inferred}});
  EXPECT_EQ(inferred.sum().item<float>(), 2);
}

TEST(Interpret, ambientStateIsTheTexts) {
  Tensor x = at::randn({4, 4}), w = at::randn({4, 4}).requires_grad_(true);
  const char *text = R"(graph @g version=1 stage=captured form=raw device=cpu {
  input %x: f32[4, 4]
  param %w: f32[4, 4]
  %a: f32[4, 4] = aten.mm(%x, %w)
  scope "fc" {amp=bf16, grad=off}
  %b: bf16[4, 4] = aten.mm(%x, %w)
  scope "fc" {inference=on, grad=off}
  %c: f32[4, 4] = aten.mm(%x, %w)
  scope ""
  %d: f32[4, 4] = aten.mm(%x, %w)
  return %a, %b, %c, %d
})";
  c10::AutoGradMode off(false);
  auto out = run(text, {{"x", x}, {"w", w}});
  EXPECT_TRUE(out[0].requires_grad());
  EXPECT_EQ(out[1].scalar_type(), at::kBFloat16);
  EXPECT_FALSE(out[1].requires_grad());
  EXPECT_TRUE(out[2].is_inference());
  EXPECT_TRUE(out[3].requires_grad() && !out[3].is_inference());
  EXPECT_FALSE(c10::GradMode::is_enabled());
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_FALSE(c10::InferenceMode::is_enabled());
}

TEST(Interpret, stateIsRestoredWhenAnOperatorThrows) {
  EXPECT_THROW(run(R"(graph @g version=1 stage=captured form=raw device=cpu deterministic=on matmul=medium {
  input %x: f32[4, 4]
  scope "a" {amp=bf16, inference=on, grad=off}
  %a: f32[3] = aten.view(&%x) {size=[3]}
  return &%a
})",
                   {{"x", at::zeros({4, 4})}}),
               c10::Error);
  EXPECT_TRUE(c10::GradMode::is_enabled());
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
  EXPECT_EQ(at::globalContext().float32MatmulPrecision(), at::Float32MatmulPrecision::HIGHEST);
}

TEST(Interpret, settingsThatCouldNotBePutBackAreNotTouched) {
  const char *text = R"(graph @g version=1 stage=captured form=raw device=cpu matmul=highest {
  input %x: f32[2]
  return &%x
})";
  auto setCuda = [](at::Float32Precision precision) {
    at::globalContext().setFloat32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL, precision);
  };
  setCuda(at::Float32Precision::TF32); // by itself: no word says it
  std::string error;
  try {
    run(text, {{"x", at::zeros({2})}});
  } catch (const Error &caught) {
    error = caught.what();
  }
  auto after = at::globalContext().float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL);
  setCuda(at::Float32Precision::IEEE);
  EXPECT_EQ(after, at::Float32Precision::TF32);
  EXPECT_NE(error.find("needs matmul=highest"), std::string::npos) << error;
  EXPECT_NO_THROW(run(text, {{"x", at::zeros({2})}}));
}

TEST(Interpret, constantsAndHostValues) {
  auto out = run(R"(graph @g version=1 stage=captured form=raw device=cpu {
  input %x: f32[3]
  const %k: i64[3] = [2, 0, 1]
  const %file: f32[3] = file "abc"
  hostval %n: i64[] = 3
  %a: f32[3] = aten.index_select(%x, %k) {dim=0}
  %b: f32[3] = aten.mul.Tensor(%a, %file)
  %c: f32[3] = aten.mul.Tensor(%b, %n)
  return %c
})",
                 {{"x", at::tensor({1.f, 2.f, 3.f})}}, {.loadConstant = [](const ir::Value &value) {
                   EXPECT_EQ(value.contentHash, "abc");
                   return at::full({3}, 10.f);
                 }});
  EXPECT_TRUE(at::equal(out[0], at::tensor({90.f, 30.f, 60.f})));
}

TEST(Interpret, symsComeFromSizesAndResults) {
  auto out = run(R"(graph @g version=1 stage=captured form=raw device=cpu {
  sym B in [1, 64]
  sym U in [0, inf]
  input %x: f32[2*B, 3]
  %v: f32[B, 6] = aten.view(&%x) {size=[B, 6]}
  %nz: i64[U, 2] = aten.nonzero(%x)
  %f: f32[U, B] = aten.full() {size=[U, B], fill_value=1.5}
  return &%v, %f
})",
                 {{"x", at::tensor({1.f, 0.f, 2.f}).expand({8, 3}).contiguous()}});
  EXPECT_EQ(out[0].sizes(), (at::IntArrayRef{4, 6}));
  EXPECT_EQ(out[1].sizes(), (at::IntArrayRef{16, 4}));
}

TEST(Interpret, hostScalarsPassBetweenOperators) {
  auto out = run(R"(graph @g version=1 stage=captured form=raw device=cpu {
  input %x: f32[3, 5]
  %n: int = aten.size.int(%x) {dim=1}
  %y: f32[3, 5] = aten.mul.Tensor(%x, %n)
  border #0 read %y reason="item" at="fc" seq=2
  return %y, %n
})",
                 {{"x", at::ones({3, 5})}});
  EXPECT_EQ(out[0].sum().item<float>(), 75);
  EXPECT_EQ(out[1].item<int64_t>(), 5);
}

TEST(Interpret, groupsRunTheirBodies) {
  Tensor x = at::randn({4, 8}, at::kBFloat16);
  auto out = run(R"(graph @g version=1 stage=fused device=cpu {
  input %x: bf16[4, 8]
  %y: f32[4, 1], %n: f32[4, 8] = group "k0" rows (%x) {
    %0: f32[4, 8] = prim.cast(%x) {dtype=f32}
    %1: f32[4, 1] = prim.sum(%0) {dim=[1], keepdim=true}
    %2: f32[4, 8] = prim.broadcast(%1) {size=[4, 8]}
    %3: f32[4, 8] = prim.div(%0, %2)
    yield %1, %3
  }
  return %y, %n
})",
                 {{"x", x}});
  Tensor f = x.to(at::kFloat), sum = f.sum({1}, true);
  EXPECT_TRUE(at::equal(out[0], sum));
  EXPECT_TRUE(at::equal(out[1], f / sum));
}

TEST(Interpret, primsNeitherAliasNorPromote) {
  Tensor x = at::randn({2, 3}, at::kBFloat16);
  auto out = run(R"(graph @g version=1 stage=core device=cpu {
  input %x: bf16[2, 3]
  %t: bf16[3, 2] = prim.transpose(%x) {dims=[1, 0]}
  %m: bf16[2, 3] = prim.mul(%x, 0.1)
  return %t, %m
})",
                 {{"x", x}});
  EXPECT_FALSE(out[0].is_alias_of(x));
  EXPECT_TRUE(out[0].is_contiguous());
  Tensor tenth = at::scalar_tensor(0.1, at::kBFloat16); // the literal has the operand's dtype
  EXPECT_TRUE(at::equal(out[1], x * tenth));
}

TEST(Interpret, fp64RunPromotesEverythingAndWritesNothing) {
  at::manual_seed(0);
  Tensor x = at::randn({2, 3}), h = at::zeros({3}, at::kBFloat16), n = at::zeros({}, at::kLong);
  const char *text = R"(graph @g version=1 stage=captured form=raw device=cpu {
  input %x: f32[2, 3]
  buffer %h: bf16[3]
  buffer %n: i64[]
  const %k: f32[3] = [0.1, 0.2, 0.3]
  scope "" {amp=bf16}
  %a: bf16[2, 3] = aten._to_copy(%x) {dtype=bf16}
  %b: f32[2, 3] = aten.mul.Tensor(%a, %k)
  %z: f32[2, 3] = aten.zeros() {size=[2, 3]}
  %s: f32[3] = aten.sum.dim_IntList(%b) {dim=[0]}
  aten.add_.Tensor(&mut %h, %s)
  aten.add_.Scalar(&mut %n) {other=1}
  %c: f32[2, 3] = aten.add.Tensor(%b, %h)
  return %c, %z, %n
})";
  auto out = run(text, {{"x", x}, {"h", h}, {"n", n}}, {.fp64 = true});
  Tensor b = x.to(at::kDouble) * at::tensor({0.1f, 0.2f, 0.3f}).to(at::kDouble);
  EXPECT_EQ(out[0].scalar_type(), at::kDouble);
  EXPECT_EQ(out[1].scalar_type(), at::kDouble);
  EXPECT_TRUE(at::equal(out[0], b + b.sum(0)));
  EXPECT_EQ(out[2].item<int64_t>(), 1);
  EXPECT_EQ(h.abs().sum().item<float>(), 0);
  EXPECT_EQ(n.item<int64_t>(), 0);
  EXPECT_EQ(c10::get_default_dtype(), caffe2::TypeMeta::Make<float>());
}

TEST(Interpret, fp64RunKeepsSharedMemory) {
  Tensor x = at::zeros({4});
  auto out = run(R"(graph @g version=1 stage=captured form=raw device=cpu {
  input %x: f32[4]
  input %tail: f32[2]
  aten.add_.Scalar(&mut %tail) {other=1}
  return %x
})",
                 {{"x", x}, {"tail", x.slice(0, 2)}}, {.fp64 = true});
  EXPECT_TRUE(at::equal(out[0], at::tensor({0., 0., 1., 1.}, at::kDouble)));
  EXPECT_EQ(x.sum().item<float>(), 0);
}

TEST(Interpret, fp64RunGivesGradientsOfLeavesThatAreWide) {
  const Tensor w = at::tensor({0.1, 0.2}, at::kDouble).requires_grad_(), x = at::tensor({3.0f, 4.0f});
  auto out = run(R"(graph @g version=1 stage=captured form=raw device=cpu {
  input %w: f64[2] grad
  input %x: f32[2]
  %y: f32[2] = aten.mul.Tensor(%w, %x)
  return %y
})",
                 {{"w", w}, {"x", x}}, {.fp64 = true});
  const Tensor gradient = torch::autograd::grad({out[0].pow(2).sum()}, {w})[0];
  EXPECT_TRUE(at::allclose(gradient, 2 * w.detach() * x.to(at::kDouble).pow(2), 1e-14, 0));
}

TEST(Interpret, errorsNameTheOp) {
  auto graph = [](const std::string &body) {
    return "graph @g version=1 stage=captured form=raw device=cpu {\n  input %x: f32[2, 2]\n" + body + "\n}";
  };
  Environment x = {{"x", at::zeros({2, 2})}};
  EXPECT_NE(failure(graph("  %y: f32[2, 2] = aten.no_such(%x)\n  return %y"), x).find("'aten.no_such'"),
            std::string::npos);
  EXPECT_NE(failure(graph("  return %x"), {}).find("input '%x' (f32[2, 2]) has no tensor"),
            std::string::npos);
  EXPECT_NE(failure(graph("  return %x"), {{"x", at::zeros({2, 3})}}).find("the tensor given is f32[2, 3]"),
            std::string::npos);
  EXPECT_NE(failure(graph("  return %x"), {{"x", at::zeros({2, 2}, at::kHalf)}}).find("f16[2, 2]"),
            std::string::npos);
  EXPECT_NE(failure(graph("  %y: f32[2, 2] = aten.relu(%x, %x)\n  return %y"), x).find("has 2 operands"),
            std::string::npos);
  EXPECT_NE(failure(graph("  %y: f32[2, 2] = aten.relu(%x) {speed=1}\n  return %y"), x)
                .find("no attribute 'speed'"),
            std::string::npos);
  EXPECT_NE(
      failure(graph("  %y: f32[2, 2] = aten.view(%x)\n  return %y"), x).find("needs the attribute 'size'"),
      std::string::npos);
  EXPECT_NE(failure(graph("  %y, %z: f32[2, 2] = aten.relu(%x)\n  return %y"), x).find("gives 1 results"),
            std::string::npos);
  EXPECT_NE(
      failure(graph("  %y: f32[2, 2] = aten.bernoulli(%x) {generator=opaque \"Generator\"}\n  return %y"), x)
          .find("cannot be run"),
      std::string::npos);
}

TEST(Interpret, onlyReadsMayBePassed) {
  auto graph = [](const std::string &border) {
    return "graph @g version=1 stage=captured form=raw device=cpu {\n  input %x: f32[2, 2]\n  border #0 " +
           border + "\n  return %x\n}";
  };
  Environment x = {{"x", at::zeros({2, 2})}};
  EXPECT_EQ(run(graph("read %x reason=\"item\" at=\"\" seq=0"), x).size(), 1u);
  EXPECT_NE(failure(graph("untraced reason=\"t_\" at=\"\" seq=0"), x)
                .find("border #0 (t_); run the program eagerly"),
            std::string::npos);
}

TEST(Interpret, unknownDevicesAreRefused) {
  std::string text =
      "graph @g version=1 stage=captured form=raw device=xpu {\n  input %x: f32[1]\n  return %x\n}";
  EXPECT_NE(failure(text, {{"x", at::zeros({1})}}).find("device xpu is not supported"), std::string::npos);
}

} // namespace
} // namespace graphopt::runtime
