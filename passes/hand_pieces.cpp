// max, min, median and nanmedian over all elements share their gradient among the elements that are the
// result (evenly_distribute_backward in LibTorch's FunctionsManual.cpp). On CPUs LibTorch reads whether the
// result is NaN and then compares or looks for NaN; "equal, or both NaN" is the same mask without the
// question.
//
// prod and cumprod have no rule: without the question they would compute every case, and a vjp computes one.
#include "passes/hand_pieces.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace graphopt::passes {
namespace {

using ir::DType;

class Builder {
public:
  explicit Builder(const ir::Graph &unit) : graph_("backward") {
    graph_.stage = ir::Stage::Lowered;
    graph_.device = unit.device;
    graph_.syms = unit.syms;
  }

  ir::Value *input(const std::string &name, ir::Type type) {
    type.grad = false;
    return graph_.declare(ir::Value::Kind::Input, name, std::move(type));
  }
  ir::Value *call(const char *name, const std::vector<ir::Value *> &operands, ir::Type type,
                  std::vector<ir::NamedAttr> attrs = {}) {
    std::vector<ir::Operand> given;
    for (ir::Value *operand : operands)
      given.push_back(ir::Operand::of(operand));
    return graph_
        .append(graph_.body(), ir::Op::Kind::Call, name, std::move(given), std::move(attrs), {{"d", type}})
        ->result();
  }
  ir::Graph finish(ir::Value *gradient) {
    graph_.append(graph_.body(), ir::Op::Kind::Return, "", {ir::Operand::of(gradient)});
    return std::move(graph_);
  }

private:
  ir::Graph graph_;
};

ir::Type typeOf(const ir::Type &like, ir::DType dtype, std::vector<ir::Dim> sizes) {
  ir::Type type = ir::Type::tensor(dtype, std::move(sizes));
  type.device = like.device;
  return type;
}

ir::Attr sizesOf(const ir::Type &type) {
  std::vector<ir::Attr> sizes;
  for (const ir::Dim &size : type.sizes)
    sizes.push_back(ir::Attr::integer(size));
  return ir::Attr::list(std::move(sizes));
}

bool isCpu(const ir::Graph &unit, const ir::Type &type) { return type.device.value_or(unit.device).isCpu(); }

ir::Graph sharedAmongEqual(const ir::Graph &unit, const ir::Type &x, size_t result,
                           const ir::GradientTypes &soFar) {
  Builder b(unit);
  const ir::Type scalar = typeOf(x, x.dtype, {}), mask = typeOf(x, DType::Bool, x.sizes),
                 full = typeOf(x, x.dtype, x.sizes);
  ir::Value *v = b.input("v0", x), *y = b.input(fmt::format("v{}", result), scalar),
            *g = b.input("g0", scalar);
  ir::Value *bothNan =
      b.call("aten.logical_and",
             {b.call("aten.isnan", {v}, mask), b.call("aten.isnan", {y}, typeOf(x, DType::Bool, {}))}, mask);
  ir::Value *isResult = b.call("aten.logical_or", {b.call("aten.eq.Tensor", {v, y}, mask), bothNan}, mask);
  ir::Value *count = b.call("aten.sum", {isResult}, typeOf(x, DType::Long, {}));
  ir::Value *share = b.call("aten.div.Tensor", {g, count}, scalar);
  ir::Value *zeros = b.call("aten.zeros", {}, full,
                            {{"size", sizesOf(x)},
                             {"dtype", ir::Attr::word(std::string(ir::dtypeName(x.dtype)))},
                             {"device", ir::Attr::word(ir::toString(x.device.value_or(unit.device)))}});
  ir::Value *d = b.call("aten.masked_fill.Tensor", {zeros, isResult, share}, full);
  if (!soFar.empty() && soFar[0])
    d = b.call("aten.add.Tensor", {b.input("s0", *soFar[0]), d}, full);
  return b.finish(d);
}

} // namespace

std::optional<ir::Graph> handBackward(const ir::Graph &unit, size_t result,
                                      const ir::GradientTypes &cotangents, const ir::GradientTypes &soFar) {
  constexpr std::array kShared = {"aten.max", "aten.min", "aten.median", "aten.nanmedian"};
  const ir::Op &op = *unit.body().ops().front();
  const std::vector<ir::Value *> inputs = unit.declared(ir::Value::Kind::Input);
  const bool isShared = op.kind == ir::Op::Kind::Call && std::ranges::find(kShared, op.name) != kShared.end();
  if (!isShared || unit.body().size() != 2 || inputs.size() != 1 || !cotangents.at(0))
    return std::nullopt;
  const ir::Type &x = inputs[0]->type;
  const bool isPlain = isCpu(unit, x) && ir::isFloating(x.dtype) && !x.strides &&
                       (soFar.empty() || !soFar[0] || !soFar[0]->strides) && cotangents[0]->dtype == x.dtype;
  if (!isPlain)
    return std::nullopt;
  return sharedAmongEqual(unit, x, result, soFar);
}

} // namespace graphopt::passes
