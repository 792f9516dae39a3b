// Calls without the stack give what boxed calls give, for every signature of the list.
#include "runtime/call.h"
#include "runtime/typed_call.h"

#include "ir/parse.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace graphopt::runtime {
namespace {
using at::Tensor;
using c10::IValue;

/// Operators by signature, each as one line of text over %x, %y, %z: f32[4, 6], %i: i64[3], %image: f32[1, 4,
/// 5, 5].
const std::vector<std::string> kCalls = {
    "aten.tanh(%x)",
    "aten.t(&%x)",
    "aten.mul.Tensor(%x, %y)",
    "aten.pow.Tensor_Scalar(%x) {exponent=2}",
    "aten.sub.Tensor(%x, %y) {alpha=0.5}",
    "aten.add.Scalar(%x) {other=1, alpha=2}",
    "aten.lerp.Tensor(%x, %y, %z)",
    "aten.addcmul(%x, %y, %z) {value=0.5}",
    "aten.linear(%x, %y, none)",
    "aten.view(&%x) {size=[3, 8]}",
    "aten.expand(&%x) {size=[2, 4, 6]}",
    "aten.permute(&%x) {dims=[1, 0]}",
    "aten.unsqueeze(&%x) {dim=1}",
    "aten.transpose.int(&%x) {dim0=0, dim1=1}",
    "aten.flatten.using_ints(&%x) {start_dim=0, end_dim=1}",
    "aten.select.int(&%x) {dim=1, index=2}",
    "aten.slice.Tensor(&%x) {dim=1, start=1, step=2}",
    "aten.softmax.int(%x) {dim=1}",
    "aten.sum(%x) {dtype=f64}",
    "aten.mean.dim(%x) {dim=[0], keepdim=true}",
    "aten.sum.dim_IntList(%x) {dim=none}",
    "aten.layer_norm(%x, none, none) {normalized_shape=[6], eps=0.001}",
    "aten.batch_norm(%x, none, none, none, none) {training=true, momentum=0.1, eps=1e-05, "
    "cudnn_enabled=true}",
    "aten.conv2d(%image, %image, none) {padding=[1, 1]}",
    "aten.scaled_dot_product_attention(%image, %image, %image, none) {scale=0.5}",
    "aten.embedding(%x, %i)",
    "aten.dropout(%x) {p=0.5, train=false}",
    "aten.gelu(%x) {approximate=\"tanh\"}",
    "aten.contiguous(%x)",
    "aten.clone(%x) {memory_format=preserve}",
    "aten.to.dtype(%x) {dtype=bf16, copy=true}",
    "aten.where.self(%b, %x, %y)",
};

struct Inputs {
  std::unordered_map<std::string, Tensor> tensors;
  Inputs() {
    at::manual_seed(0);
    for (const char *name : {"x", "y", "z"})
      tensors[name] = at::randn({4, 6});
    tensors["i"] = at::arange(3);
    tensors["b"] = tensors["x"].gt(0);
    tensors["image"] = at::randn({1, 4, 5, 5});
  }
};

ir::Graph graphOf(const std::string &call) {
  return ir::parseGraph(
      "graph @g version=1 stage=captured form=raw device=cpu {\n  input %x: f32[4, 6]\n  input %y: "
      "f32[4, 6]\n  input %z: f32[4, 6]\n  input %i: i64[3]\n  input %b: bool[4, 6]\n  input "
      "%image: f32[1, 4, 5, 5]\n  %r: f32[1] = " +
      call + "\n  return %r\n}");
}

TEST(TypedCall, equalsTheBoxedCallForEverySignature) {
  Inputs inputs;
  for (const std::string &text : kCalls) {
    ir::Graph graph = graphOf(text);
    Call call = matchCall(*graph.body().ops().front());
    SymValues noSyms;
    auto lookUp = [&](const ir::Value &value) { return IValue(inputs.tensors.at(value.name)); };
    torch::jit::Stack stack = stackFor(call, {lookUp, noSyms});

    std::vector<TypedArgument> arguments;
    std::vector<IValue> slots;
    for (size_t i = 0; i < stack.size(); ++i) {
      bool isValue = call.arguments[i].operand.kind == ir::Operand::Kind::Value;
      arguments.push_back({isValue ? static_cast<int>(slots.size()) : -1, isValue ? IValue() : stack[i]});
      if (isValue)
        slots.push_back(stack[i]);
    }
    auto typed = makeTypedCall(*call.op, arguments);
    if (text.starts_with("aten.addcmul")) { // a keyword scalar after three tensors: not in the list
      EXPECT_EQ(typed, nullptr);
      continue;
    }
    ASSERT_NE(typed, nullptr) << text;
    Tensor actual = typed->run(slots.data());
    call.op->handle.callBoxed(stack);
    Tensor expected = stack.back().toTensor();
    EXPECT_TRUE(at::equal(actual, expected)) << text;
    EXPECT_EQ(actual.strides(), expected.strides()) << text;
    EXPECT_EQ(actual.scalar_type(), expected.scalar_type()) << text;
    EXPECT_EQ(actual.is_alias_of(inputs.tensors["x"]), expected.is_alias_of(inputs.tensors["x"])) << text;
  }
}

TEST(TypedCall, writesListsAndSeveralResultsStayBoxed) {
  for (std::string_view name :
       {"aten.add_.Tensor", "aten.chunk", "aten.max.dim", "aten.cat", "aten.item", "aten.add.out"}) {
    const Operator &op = requireOperator(name);
    EXPECT_EQ(makeTypedCall(op, std::vector<TypedArgument>(op.info.args.size())), nullptr) << name;
  }
}

} // namespace
} // namespace graphopt::runtime
