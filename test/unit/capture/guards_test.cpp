// Guards hold for calls like the recorded one, and say what differs otherwise.
#include "recording.h"

#include "ir/print.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>

namespace graphopt::capture {
namespace {

std::string missOf(const Capture &capture, const std::vector<c10::IValue> &args) {
  std::optional<GuardMiss> miss = checkGuards(capture, args);
  return miss ? miss->text + " failed: actual " + miss->actual : "";
}

class Guards : public testing::Test {
protected:
  Capture capture = recordBody([](const Tensors &x) { return x[0].relu(); }, {ramp({2, 16})});
};

TEST_F(Guards, HoldForAnotherTensorOfTheSameType) { EXPECT_EQ(missOf(capture, {at::rand({2, 16})}), ""); }

TEST_F(Guards, TellSizes) {
  EXPECT_EQ(missOf(capture, {ramp({3, 16})}), "guard #0 meta(%x) == f32[2, 16] failed: actual f32[3, 16]");
}
TEST_F(Guards, TellStrides) {
  EXPECT_EQ(missOf(capture, {ramp({16, 2}).t()}),
            "guard #0 meta(%x) == f32[2, 16] failed: actual f32[2, 16] strides=[1, 2]");
}
TEST_F(Guards, TellDtypes) {
  EXPECT_EQ(missOf(capture, {ramp({2, 16}).to(at::kDouble)}),
            "guard #0 meta(%x) == f32[2, 16] failed: actual f64[2, 16]");
}
TEST_F(Guards, TellGradients) {
  EXPECT_EQ(missOf(capture, {ramp({2, 16}).requires_grad_()}),
            "guard #0 meta(%x) == f32[2, 16] failed: actual f32[2, 16] grad");
}
TEST_F(Guards, TellConjugation) {
  Capture complex =
      recordBody([](const Tensors &x) { return x[0].mul(2); }, {at::zeros({2}, at::kComplexFloat)});
  EXPECT_EQ(missOf(complex, {at::zeros({2}, at::kComplexFloat).conj()}),
            "guard #0 meta(%x) == c64[2] failed: actual c64[2] conj");
}
TEST_F(Guards, TellLayouts) {
  EXPECT_EQ(missOf(capture, {ramp({2, 16}).to_sparse()}),
            "guard #0 meta(%x) == f32[2, 16] failed: actual f32[2, 16] (layout sparse_coo)");
}

TEST_F(Guards, TellGradMode) {
  at::NoGradGuard off;
  EXPECT_EQ(missOf(capture, {ramp({2, 16})}), "guard #1 grad_mode == on failed: actual off");
}
TEST_F(Guards, TellInferenceMode) {
  c10::InferenceMode on;
  at::AutoGradMode grad(true);
  EXPECT_EQ(missOf(capture, {ramp({2, 16})}), "guard #2 inference_mode == off failed: actual on");
}
TEST_F(Guards, TellAutocast) {
  at::autocast::set_autocast_enabled(at::kCPU, true);
  std::string miss = missOf(capture, {ramp({2, 16})});
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_EQ(miss, "guard #3 autocast(cpu) == off failed: actual bf16");
}
TEST_F(Guards, TellDefaultDtype) {
  c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
  std::string miss = missOf(capture, {ramp({2, 16})});
  c10::set_default_dtype(caffe2::TypeMeta::Make<float>());
  EXPECT_EQ(miss, "guard #4 default_dtype == f32 failed: actual f64");
}
TEST_F(Guards, TellDeterminism) {
  at::globalContext().setDeterministicAlgorithms(true, false);
  std::string miss = missOf(capture, {ramp({2, 16})});
  at::globalContext().setDeterministicAlgorithms(false, false);
  EXPECT_EQ(miss, "guard #5 deterministic == off failed: actual on");
}
TEST_F(Guards, TellMatmulPrecision) {
  at::globalContext().setFloat32MatmulPrecision("medium");
  std::string miss = missOf(capture, {ramp({2, 16})});
  at::globalContext().setFloat32MatmulPrecision("highest");
  EXPECT_EQ(miss, "guard #6 matmul_precision == highest failed: actual medium");
}

TEST_F(Guards, TellArguments) {
  EXPECT_EQ(missOf(capture, {}), "arguments == 1 failed: actual 0");
  EXPECT_EQ(missOf(capture, {c10::IValue(3)}),
            "argument x has the recorded structure failed: actual a plain value, expected a tensor");
}

TEST(ArgumentGuards, CompareScalarsAndNesting) {
  auto program = functionProgram("scaled", [](std::vector<c10::IValue> args) -> c10::IValue {
    auto pair = args[1].toTupleRef().elements();
    at::Tensor y = args[0].toTensor().mul(pair[1].toDouble());
    return pair[0].isNone() ? y : y.add(pair[0].toTensor());
  });
  auto pair = [](c10::IValue mask, double scale) { return c10::ivalue::Tuple::create(mask, scale); };
  at::Tensor x = ramp({2});
  Capture plain = recordChecked(*program, {x, pair({}, 2.5)});
  EXPECT_EQ(guardsOf(plain, "argument"), "argument(\"x1\") == opaque \"Tuple\"\n");
  Capture masked = recordChecked(*program, {x, pair(x, 2.5)});
  EXPECT_EQ(guardsOf(masked, "argument"), "argument(\"x1.1\") == 2.5\n");
  EXPECT_EQ(missOf(masked, {x, pair(x, 2.5)}), "");
  EXPECT_NE(missOf(masked, {x, pair(x, 3.5)}).find("argument(\"x1.1\") == 2.5 failed: actual 3.5"),
            std::string::npos);
  EXPECT_NE(missOf(masked, {x, pair({}, 2.5)}), "");
  EXPECT_NE(missOf(masked, {x, pair(ramp({2}), 2.5)}).find("same(\"x0\", \"x1.0\") == on failed: actual off"),
            std::string::npos);
}

TEST(StateGuards, CompareParametersAndTheirMemory) {
  at::Tensor w = ramp({2});
  Capture capture = recordBody(
      [&](const Tensors &x) {
        w.add_(x[0]);
        return w.mul(2);
      },
      {ramp({2})}, {{"w", w, false}});
  EXPECT_EQ(missOf(capture, {ramp({2})}), "");
  EXPECT_NE(missOf(capture, {w}).find("unshared(%x) == on failed: actual off, %w shares it"),
            std::string::npos);
  w.set_data(ramp({3}));
  EXPECT_NE(missOf(capture, {ramp({2})}).find("meta(%w) == f32[2] failed: actual f32[3]"), std::string::npos);
}

TEST(StateGuards, CompareOverlapOfArguments) {
  at::Tensor x = ramp({4});
  Capture capture =
      recordBody([](const Tensors &a) { return a[0].sum().add(a[1].sum()); }, {x, x.slice(0, 1)});
  EXPECT_EQ(missOf(capture, {x, x.slice(0, 1)}), "");
  EXPECT_NE(missOf(capture, {x, ramp({3})}).find("alias(%x0, %x1) == overlap failed: actual distinct"),
            std::string::npos);
}

TEST(StateGuards, NoticeDroppedOutsideTensors) {
  auto h = std::make_shared<at::Tensor>(ramp({2}));
  Capture capture = recordBody([=](const Tensors &x) { return x[0].add(*h); }, {ramp({2})});
  EXPECT_EQ(missOf(capture, {ramp({2})}), "");
  h->reset();
  EXPECT_NE(missOf(capture, {ramp({2})}).find("actual a tensor that the program has dropped"),
            std::string::npos);
}

TEST(Ambient, IsWrittenWhereItDiffersFromTheDefault) {
  Capture capture = recordBody(
      [](const Tensors &x) {
        at::Tensor y = x[0].neg();
        {
          at::NoGradGuard off;
          y = y.relu();
        }
        at::autocast::set_autocast_enabled(at::kCPU, true);
        y = y.mm(y);
        at::autocast::set_autocast_enabled(at::kCPU, false);
        return y.exp();
      },
      {ramp({2, 2})});
  EXPECT_EQ(bodyOf(capture), "%neg: f32[2, 2] = aten.neg(%x)\n"
                             "scope \"\" {grad=off}\n"
                             "%relu: f32[2, 2] = aten.relu(%neg)\n"
                             "scope \"\" {amp=bf16}\n"
                             "%mm: bf16[2, 2] = aten.mm(%relu, %relu)\n"
                             "scope \"\"\n"
                             "%exp: bf16[2, 2] = aten.exp(%mm)\n"
                             "return %exp\n");
}

TEST(Ambient, InferenceMode) {
  c10::InferenceMode on;
  Capture capture = recordBody([](const Tensors &x) { return x[0].neg(); }, {ramp({2})});
  EXPECT_EQ(bodyOf(capture),
            "scope \"\" {grad=off, inference=on}\n%neg: f32[2] = aten.neg(%x)\nreturn %neg\n");
}

} // namespace
} // namespace graphopt::capture
