// Regions do not nest: of an update that draws, the body is drawn again.
#include "passes/redraw.h"

#include "ir/dim_list.h"
#include "ir/effects.h"
#include "ir/op_table.h"
#include "passes/regions.h"

#include <algorithm>

namespace graphopt::passes {
namespace {

using ir::Op;

/// LibTorch 2.11: at::Generator::get_state of the CPU's generator (CPUGeneratorImpl: mt19937 with its 624
/// words, and cached normal samples) and of a GPU's (CUDAGeneratorImpl: seed and offset, 8 bytes each).
constexpr int64_t kCpuStateBytes = 5056, kGpuStateBytes = 16;

bool isOfClassRandom(const Op &op) {
  const ir::AtenRow *row = ir::findAten(op.name);
  const ir::Attr *generator = op.attr("generator");
  return op.kind == Op::Kind::Call && row && row->recompute == ir::RecomputeClass::Random &&
         (!generator || generator->isNone());
}

std::vector<ir::NamedAttr> deviceAttr(const ir::Device &device) {
  return {{"device", ir::Attr::word(toString(device))}};
}

} // namespace

bool mayRedraw(const ir::Graph &graph, const Op &op, const ir::OpCatalog *catalog) {
  const ir::Effects effects = ir::effectsOf(op, catalog);
  if (!effects.random || effects.hostRead || effects.ordered || effects.writes || graph.isOpaque(op))
    return false;
  if (devicesOfDraws(graph, op).size() != 1)
    return false;
  if (op.kind == Op::Kind::Call)
    return isOfClassRandom(op);
  return op.kind == Op::Kind::Update && std::ranges::all_of(*op.body(), [&](const auto &inner) {
           return !ir::effectsOf(*inner, catalog).random || isOfClassRandom(*inner);
         });
}

std::vector<ir::Device> devicesOfDraws(const ir::Graph &graph, const Op &op) {
  std::vector<ir::Device> devices;
  const auto add = [&](const ir::Value *value) {
    const ir::Device device = value->type.device.value_or(graph.device);
    if (value->type.isTensor() && std::ranges::find(devices, device) == devices.end())
      devices.push_back(device);
  };
  std::ranges::for_each(op.results(), add);
  if (op.kind == Op::Kind::Call && !op.name.starts_with("aten.")) {
    op.forEachValue([&](const ir::Operand &operand) { add(operand.value); });
    if (std::ranges::find(devices, ir::Device()) == devices.end())
      devices.emplace_back(); // the CPU: host code may flip a coin
  }
  return devices;
}

ir::Type rngStateType(const ir::Graph &graph, const ir::Device &device) {
  ir::Type type = ir::Type::tensor(ir::DType::Byte, {device.isCpu() ? kCpuStateBytes : kGpuStateBytes});
  if (!graph.device.isCpu())
    type.device = ir::Device();
  return type;
}

ir::Value *insertRngState(ir::Graph &graph, Op *draw, const std::string &name, const ir::Device &device) {
  Op *state = graph.insertBefore(draw, Op::Kind::Call, std::string(ir::kRngState), {}, deviceAttr(device),
                                 {{name, rngStateType(graph, device)}});
  state->state = draw->state;
  return state->result();
}

void appendSetRngState(ir::Graph &graph, ir::Block &body, ir::Value *state, const ir::Device &device,
                       const Op &draw) {
  graph
      .append(body, Op::Kind::Call, std::string(ir::kSetRngState), {ir::Operand::of(state)},
              deviceAttr(device))
      ->state = draw.state;
}

void appendRedraw(ir::Graph &graph, const Op &draw, ir::Value *state, ir::ValueMap &map) {
  Op *redraw = graph.append(graph.body(), Op::Kind::Redraw, "", {});
  redraw->state = draw.state;
  ir::Block &body = graph.makeBody(redraw);
  appendSetRngState(graph, body, state, devicesOfDraws(graph, draw).at(0), draw);
  std::vector<ir::Operand> yielded;
  if (draw.kind == Op::Kind::Call) {
    ir::copyOpWithStates(graph, body, draw, map);
    for (const ir::Value *result : draw.results())
      yielded.push_back(ir::Operand::of(map.at(result)));
  } else {
    for (const auto &inner : *draw.body())
      if (inner->kind != Op::Kind::Yield)
        ir::copyOpWithStates(graph, body, *inner, map);
    yielded = ir::mapped(draw.body()->terminator()->operands(), map);
  }
  graph.append(body, Op::Kind::Yield, "", std::move(yielded))->state = draw.state;
  redraw->setOperands(capturesOf(body));
  for (const ir::Value *result : draw.results())
    map[result] = graph.addResult(redraw, result->name, result->type);
}

ir::Value *appendEmpty(ir::Graph &graph, const Op &op) {
  const ir::Type &type = op.result()->type;
  const ir::Device device = type.device.value_or(graph.device);
  Op *empty = graph.append(graph.body(), Op::Kind::Call, "aten.empty_strided", {},
                           {{"size", ir::dimList(type.sizes)},
                            {"stride", ir::dimList(type.stridesOrContiguous())},
                            {"dtype", ir::Attr::word(std::string(ir::dtypeName(type.dtype)))},
                            {"device", ir::Attr::word(toString(device))}},
                           {{op.result()->name, type}});
  empty->state = op.state;
  return empty->result();
}

} // namespace graphopt::passes
