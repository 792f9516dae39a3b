// Guards hold for calls like the recorded one, and say what differs otherwise.
#include "recording.h"

#include "capture/ambient.h"
#include "ir/parse.h"
#include "ir/print.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

namespace graphopt::capture {
namespace {

std::string missOf(const Capture &capture, const std::vector<c10::IValue> &args) {
  std::optional<GuardMiss> miss = checkGuards(capture, args);
  return miss ? miss->text + " failed: actual " + miss->actual : "";
}

/// The names of the switches that a graph's guards speak of, one a line.
std::string switchesOf(const ir::Graph &graph) {
  std::string names;
  for (const auto &[name, word] : switchesFor(graph, processState()))
    names += std::string(name) + "\n";
  return names;
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

TEST_F(Guards, TellMatmulPrecisionsThatOneWordCannotSay) {
  auto setCuda = [](at::Float32Precision precision) {
    at::globalContext().setFloat32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL, precision);
  };
  setCuda(at::Float32Precision::TF32);
  std::string miss = missOf(capture, {ramp({2, 16})});
  Capture mixed = recordBody([](const Tensors &x) { return x[0].relu(); }, {ramp({2, 16})});
  std::string same = missOf(mixed, {ramp({2, 16})});
  setCuda(at::Float32Precision::IEEE);
  EXPECT_EQ(miss.find("guard #6 matmul_precision == highest failed: actual cuda.tf32.mkldnn."), 0u) << miss;
  EXPECT_EQ(same, "");
  EXPECT_NE(missOf(mixed, {ramp({2, 16})}).find("failed: actual highest"), std::string::npos);
  EXPECT_EQ(ir::print(mixed.graph).find("matmul=cuda"),
            std::string::npos); // no setting that a plan could set
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

// ---- where a tensor begins in its storage

TEST(OffsetGuards, AreThereWhereAnOperatorCountsFromTheStoragesStart) {
  Capture capture = recordBody(
      [](const Tensors &a) { return a[0].t().as_strided({2}, {1}, a[0].storage_offset() + 1).neg(); },
      {ramp({3, 4}).slice(0, 1)});
  EXPECT_EQ(guardsOf(capture, "offset"), "offset(%x) == 4\n");
  EXPECT_EQ(missOf(capture, {ramp({5, 4}).slice(0, 1, 3)}), "");
  EXPECT_NE(missOf(capture, {ramp({5, 4}).slice(0, 2, 4)}).find("offset(%x) == 4 failed: actual 8"),
            std::string::npos);
  EXPECT_NE(missOf(capture, {ramp({2, 4})}).find("offset(%x) == 4 failed: actual 0"), std::string::npos);
}

TEST(OffsetGuards, SpeakOfEveryDeclaredTensorOfThatStorage) {
  at::Tensor w = ramp({6});
  Capture capture = recordBody(
      [&](const Tensors &a) {
        return a[0].add(at::as_strided_copy(w.slice(0, 1), {2}, {2}, 3)).add(a[1].as_strided({2}, {1}, 2));
      },
      {ramp({2}), w.slice(0, 2)}, {{"w", w, true}});
  EXPECT_EQ(guardsOf(capture, "offset"), "offset(%x1) == 2\noffset(%w) == 0\n");
}

TEST(OffsetGuards, AreLeftOutWhereNothingDependsOnIt) {
  auto relative = [](const Tensors &a) { return a[0].as_strided({2}, {1}).add(a[0].slice(0, 0, 2)); };
  Capture capture = recordBody(relative, {ramp({4}).slice(0, 1)});
  EXPECT_EQ(guardsOf(capture, "offset"), "");
  EXPECT_EQ(missOf(capture, {ramp({5}).slice(0, 2)}), "");
}

// ---- switches of the backends

/// Sets a switch for as long as it lives.
class Flipped {
public:
  using Set = void (*)(at::Context &, bool);
  Flipped(Set set, bool value) : set_(set), before_(!value) { set_(at::globalContext(), value); }
  ~Flipped() { set_(at::globalContext(), before_); }

private:
  Set set_;
  bool before_;
};

struct SwitchCase {
  std::string name;
  bool usual;
  Flipped::Set set;
};
template <size_t N> std::string namesOf(const SwitchCase (&cases)[N]) {
  std::string names;
  for (const SwitchCase &one : cases)
    names += one.name + "\n";
  return names;
}
void PrintTo(const SwitchCase &one, std::ostream *out) { *out << one.name; }
std::string nameOf(const testing::TestParamInfo<SwitchCase> &info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

void setTf32(at::Context &context, at::Float32Op op, bool on) {
  context.setFloat32Precision(at::Float32Backend::CUDA, op,
                              on ? at::Float32Precision::TF32 : at::Float32Precision::IEEE);
}

const SwitchCase kAttentionCases[] = {
    {"sdp.flash", true, [](at::Context &c, bool on) { c.setSDPUseFlash(on); }},
    {"sdp.mem_efficient", true, [](at::Context &c, bool on) { c.setSDPUseMemEfficient(on); }},
    {"sdp.math", true, [](at::Context &c, bool on) { c.setSDPUseMath(on); }},
    {"sdp.cudnn", true, [](at::Context &c, bool on) { c.setSDPUseCuDNN(on); }},
};
const SwitchCase kCudnnCases[] = {
    {"cudnn.enabled", true, [](at::Context &c, bool on) { c.setUserEnabledCuDNN(on); }},
    {"cudnn.benchmark", false, [](at::Context &c, bool on) { c.setBenchmarkCuDNN(on); }},
    {"cudnn.deterministic", false, [](at::Context &c, bool on) { c.setDeterministicCuDNN(on); }},
    {"cudnn.conv.allow_tf32", true, [](at::Context &c, bool on) { setTf32(c, at::Float32Op::CONV, on); }},
    {"cudnn.rnn.allow_tf32", true, [](at::Context &c, bool on) { setTf32(c, at::Float32Op::RNN, on); }},
};

class SwitchGuards : public testing::TestWithParam<SwitchCase> {
protected:
  std::string expected = fmt::format("setting(\"{}\") == {}", GetParam().name, onOff(GetParam().usual));
  std::string actual = onOff(!GetParam().usual);
};
class AttentionSwitch : public SwitchGuards {};
class CudnnSwitch : public SwitchGuards {};

c10::IValue attend(const Tensors &a) { return at::scaled_dot_product_attention(a[0], a[0], a[0]); }

TEST_P(AttentionSwitch, IsGuardedWhereThereIsAttention) {
  Capture capture = recordBody(attend, {ramp({1, 2, 4, 8})});
  EXPECT_EQ(missOf(capture, {ramp({1, 2, 4, 8})}), "");
  Flipped flipped(GetParam().set, !GetParam().usual);
  EXPECT_NE(missOf(capture, {ramp({1, 2, 4, 8})}).find(expected + " failed: actual " + actual),
            std::string::npos);
}
TEST_P(AttentionSwitch, IsRecordedAsItWasAtEntry) {
  Flipped flipped(GetParam().set, !GetParam().usual);
  Capture capture = recordBody(
      [&](const Tensors &a) {
        c10::IValue y = attend(a);
        GetParam().set(at::globalContext(), GetParam().usual);
        return y;
      },
      {ramp({1, 2, 4, 8})});
  EXPECT_NE(guardsOf(capture, "setting").find(fmt::format("(\"{}\") == {}", GetParam().name, actual)),
            std::string::npos);
  EXPECT_NE(bordersOf(capture).find("a switch of the process"), std::string::npos);
}
INSTANTIATE_TEST_SUITE_P(All, AttentionSwitch, testing::ValuesIn(kAttentionCases), nameOf);

TEST_P(CudnnSwitch, IsGuardedWhereThereIsCuda) {
  Capture capture;
  capture.graph = ir::parseGraph("graph @g version=1 stage=captured form=raw device=cuda:0 {\n  guard #0 " +
                                 expected + "\n  return\n}\n");
  EXPECT_EQ(switchesOf(capture.graph), namesOf(kCudnnCases));
  EXPECT_EQ(missOf(capture, {}), "");
  Flipped flipped(GetParam().set, !GetParam().usual);
  EXPECT_EQ(missOf(capture, {}), "guard #0 " + expected + " failed: actual " + actual);
}
INSTANTIATE_TEST_SUITE_P(All, CudnnSwitch, testing::ValuesIn(kCudnnCases), nameOf);

TEST(SwitchGuards, AreLeftOutWhereNoOperatorAsksForThem) {
  EXPECT_EQ(guardsOf(recordBody([](const Tensors &a) { return a[0].relu(); }, {ramp({2})}), "setting"), "");
  std::string text = "graph @g version=1 stage=captured form=raw device=cpu {{\n  input %x: f32[2]\n"
                     "  %y: f32[2]{} = {}(%x)\n  return %y\n}}\n";
  auto namesFor = [&](const char *device, const char *op) {
    return switchesOf(ir::parseGraph(fmt::format(fmt::runtime(text), device, op)));
  };
  EXPECT_EQ(namesFor("", "aten.relu"), "");
  EXPECT_EQ(namesFor("", "aten._native_multi_head_attention"), namesOf(kAttentionCases));
  EXPECT_EQ(namesFor("", "mylib::anything"), namesOf(kAttentionCases)); // it may call attention
  EXPECT_EQ(namesFor(" device=cuda:0", "aten.relu"), namesOf(kCudnnCases));
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
