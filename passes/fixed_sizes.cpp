// Values come before operators: the order is that of the text.
#include "passes/fixed_sizes.h"

#include <fmt/format.h>
#include <graphopt/error.h>

namespace graphopt::passes {
namespace {

using F = std::function<void(ir::Dim &)>;

/// Strides that have become those of a contiguous tensor are none.
void changeType(ir::Type &type, const F &f) {
  for (ir::Dim &size : type.sizes)
    f(size);
  if (!type.strides)
    return;
  std::vector<ir::Dim> strides = std::move(*type.strides);
  for (ir::Dim &stride : strides)
    f(stride);
  type.setStrides(std::move(strides));
}

ir::Attr changed(const ir::Attr &attr, const F &f) {
  if (attr.isInt()) {
    ir::Dim dim = attr.asDim();
    f(dim);
    return ir::Attr::integer(std::move(dim));
  }
  if (!attr.isList())
    return attr;
  std::vector<ir::Attr> items;
  for (const ir::Attr &item : attr.items())
    items.push_back(changed(item, f));
  return ir::Attr::list(std::move(items));
}

bool hasLiteral(const std::vector<ir::Operand> &operands) {
  for (const ir::Operand &operand : operands)
    if (operand.kind == ir::Operand::Kind::Literal || hasLiteral(operand.items))
      return true;
  return false;
}

void changeLiterals(std::vector<ir::Operand> &operands, const F &f) {
  for (ir::Operand &operand : operands) {
    if (operand.kind == ir::Operand::Kind::Literal)
      operand.literal = changed(operand.literal, f);
    changeLiterals(operand.items, f);
  }
}

void changeOp(ir::Op &op, const F &f) {
  for (ir::Value *result : op.results())
    changeType(result->type, f);
  for (ir::NamedAttr &attr : op.attrs)
    attr.value = changed(attr.value, f);
  if (!hasLiteral(op.operands()))
    return;
  std::vector<ir::Operand> operands = op.operands();
  changeLiterals(operands, f);
  op.setOperands(std::move(operands));
}

F valuesOf(const std::vector<ir::SymValue> &values) {
  return [&values](ir::Dim &dim) {
    if (dim.isConstant())
      return;
    const std::optional<int64_t> value = ir::evaluate(dim, values);
    if (!value)
      userError(
          fmt::format("the size {} is not known: give a value for each of its syms", ir::toString(dim)));
    dim = ir::Dim(*value);
  };
}

} // namespace

void changeDims(ir::Graph &graph, const F &f) {
  for (ir::Value *value : graph.declarations())
    changeType(value->type, f);
  ir::walk(graph.body(), [&](ir::Op &op) { changeOp(op, f); });
}

ir::Graph withSizes(const ir::Graph &graph, const std::vector<ir::SymValue> &values) {
  ir::Graph fixed = graph.clone();
  changeDims(fixed, valuesOf(values));
  fixed.syms.clear();
  return fixed;
}

ir::Type withSizes(ir::Type type, const std::vector<ir::SymValue> &values) {
  changeType(type, valuesOf(values));
  return type;
}

std::vector<ir::SymValue> usualSizes(const std::vector<ir::Sym> &syms) {
  constexpr int64_t kUsual = 32;
  std::vector<ir::SymValue> sizes;
  for (const ir::Sym &sym : syms)
    sizes.push_back({sym.name, std::clamp(kUsual, sym.range.lo, std::max(sym.range.lo, sym.range.hi))});
  return sizes;
}

} // namespace graphopt::passes
