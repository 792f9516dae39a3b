// max, min, median and nanmedian over all elements share their gradient among the elements that are the
// result (evenly_distribute_backward in LibTorch's FunctionsManual.cpp). On CPUs LibTorch reads whether the
// result is NaN and then compares or looks for NaN; "equal, or both NaN" is the same mask without the
// question. Products: passes/hand_products.
#include "passes/hand_pieces.h"

#include "passes/hand_builder.h"
#include "passes/hand_products.h"

#include <algorithm>
#include <array>

namespace graphopt::passes {
namespace {

using ir::DType;

constexpr std::array kShared = {"aten.max", "aten.min", "aten.median", "aten.nanmedian"};
constexpr std::array kProducts = {"aten.prod", "aten.prod.dim_int", "aten.cumprod"};

template <class Names> bool has(const Names &names, const std::string &name) {
  return std::ranges::find(names, name) != names.end();
}

ir::Graph sharedAmongEqual(const ir::Graph &unit, const ir::Type &x, size_t result,
                           const ir::GradientTypes &soFar) {
  HandBuilder b(unit);
  const ir::Type scalar = typeLike(x, x.dtype, {}), mask = typeLike(x, DType::Bool, x.sizes);
  ir::Value *v = b.operand(0, x), *y = b.result(result, scalar), *g = b.cotangent(scalar);
  ir::Value *bothNan = b.call(
      "aten.logical_and",
      {b.call("aten.isnan", {v}, mask), b.call("aten.isnan", {y}, typeLike(x, DType::Bool, {}))}, mask);
  ir::Value *isResult = b.call("aten.logical_or", {b.call("aten.eq.Tensor", {v, y}, mask), bothNan}, mask);
  ir::Value *count = b.call("aten.sum", {isResult}, typeLike(x, DType::Long, {}));
  ir::Value *share = b.call("aten.div.Tensor", {g, count}, scalar);
  const ir::Type full = typeLike(x, x.dtype, x.sizes);
  ir::Value *d = b.call("aten.masked_fill.Tensor", {b.filled("aten.zeros", full), isResult, share}, full);
  return b.finish(d, soFar);
}

bool isPlain(const ir::Graph &unit, const ir::Type &x, const ir::GradientTypes &cotangents,
             const ir::GradientTypes &soFar) {
  return x.device.value_or(unit.device).isCpu() && ir::isFloating(x.dtype) && !x.strides &&
         (soFar.empty() || !soFar[0] || !soFar[0]->strides) && cotangents[0]->dtype == x.dtype;
}

} // namespace

std::optional<ir::Graph> handBackward(const ir::Graph &unit, size_t result,
                                      const ir::GradientTypes &cotangents, const ir::GradientTypes &soFar) {
  const ir::Op &op = *unit.body().ops().front();
  const std::vector<ir::Value *> inputs = unit.declared(ir::Value::Kind::Input);
  const bool isAlone = op.kind == ir::Op::Kind::Call && unit.body().size() == 2 && inputs.size() == 1;
  if (!isAlone || !cotangents.at(0))
    return std::nullopt;
  if (has(kProducts, op.name))
    return productBackward(unit, result, cotangents, soFar);
  if (!has(kShared, op.name) || !isPlain(unit, inputs[0]->type, cotangents, soFar))
    return std::nullopt;
  return sharedAmongEqual(unit, inputs[0]->type, result, soFar);
}

} // namespace graphopt::passes
