// Names are those of pieces: v for values of the forward run, g for cotangents, s for gradients so far.
#include "passes/hand_builder.h"

#include "ir/dim_list.h"

#include <fmt/format.h>

namespace graphopt::passes {

HandBuilder::HandBuilder(const ir::Graph &unit) : graph_("backward") {
  graph_.stage = ir::Stage::Lowered;
  graph_.device = unit.device;
  graph_.syms = unit.syms;
}

ir::Value *HandBuilder::input(const std::string &name, ir::Type type) {
  type.grad = false;
  return graph_.declare(ir::Value::Kind::Input, name, std::move(type));
}

ir::Value *HandBuilder::operand(size_t number, const ir::Type &type) {
  return input(fmt::format("v{}", number), type);
}

ir::Value *HandBuilder::call(const char *name, const std::vector<ir::Value *> &operands, ir::Type type,
                             std::vector<ir::NamedAttr> attrs) {
  return calls(name, operands, {std::move(type)}, std::move(attrs)).front();
}

std::vector<ir::Value *> HandBuilder::calls(const char *name, const std::vector<ir::Value *> &operands,
                                            std::vector<ir::Type> types, std::vector<ir::NamedAttr> attrs) {
  std::vector<ir::Operand> given;
  for (ir::Value *operand : operands)
    given.push_back(ir::Operand::of(operand));
  ir::Op *op = graph_.append(graph_.body(), ir::Op::Kind::Call, name, std::move(given), std::move(attrs));
  for (ir::Type &type : types)
    graph_.addResult(op, "d", std::move(type));
  return op->results();
}

ir::Value *HandBuilder::view(const char *name, ir::Value *of, ir::Type type,
                             std::vector<ir::NamedAttr> attrs) {
  return graph_
      .append(graph_.body(), ir::Op::Kind::Call, name, {ir::Operand::of(of, ir::Mark::Alias)},
              std::move(attrs), {{"d", std::move(type)}})
      ->result();
}

ir::Value *HandBuilder::concat(const std::vector<ir::Value *> &pieces, int64_t dim, ir::Type type) {
  std::vector<ir::Operand> items;
  for (ir::Value *piece : pieces)
    items.push_back(ir::Operand::of(piece));
  return graph_
      .append(graph_.body(), ir::Op::Kind::Call, "aten.cat", {ir::Operand::list(std::move(items))},
              {{"dim", ir::Attr::integer(dim)}}, {{"d", std::move(type)}})
      ->result();
}

ir::Value *HandBuilder::filled(const char *name, const ir::Type &type) {
  return call(name, {}, type,
              {{"size", ir::dimList(type.sizes)},
               {"dtype", ir::Attr::word(std::string(ir::dtypeName(type.dtype)))},
               {"device", ir::Attr::word(ir::toString(deviceOf(type)))}});
}

ir::Value *HandBuilder::cast(ir::Value *value, ir::DType dtype) {
  if (value->type.dtype == dtype)
    return value;
  ir::Type type = value->type;
  type.dtype = dtype;
  return call("aten._to_copy", {value}, std::move(type),
              {{"dtype", ir::Attr::word(std::string(ir::dtypeName(dtype)))}});
}

ir::Value *HandBuilder::contiguous(ir::Value *value) {
  if (!value->type.strides)
    return value;
  return call("aten.clone", {value}, typeLike(value->type, value->type.dtype, value->type.sizes),
              {{"memory_format", ir::Attr::word("contiguous")}});
}

ir::Graph HandBuilder::finish(ir::Value *gradient, const ir::GradientTypes &soFar) {
  if (!soFar.empty() && soFar[0])
    gradient = call("aten.add.Tensor", {input("s0", *soFar[0]), gradient}, *soFar[0]);
  graph_.append(graph_.body(), ir::Op::Kind::Return, "", {ir::Operand::of(gradient)});
  return std::move(graph_);
}

ir::Type typeLike(const ir::Type &like, ir::DType dtype, std::vector<ir::Dim> sizes) {
  ir::Type type = ir::Type::tensor(dtype, std::move(sizes));
  type.device = like.device;
  return type;
}

} // namespace graphopt::passes
