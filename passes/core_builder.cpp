// A prim is put into the graph first and asked for its type then: the shape rules read operands and
// attributes from an op.
#include "passes/core_builder.h"

#include "ir/dim_list.h"
#include "ir/op_table.h"
#include "ir/shape_rules.h"
#include "passes/promote.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <graphopt/error.h>

namespace graphopt::passes {
namespace {
using ir::Operand;
using ir::Value;

/// Whether a prim's arithmetic can round; comparisons, choices and moves are exact.
bool rounds(const ir::PrimRow &row) {
  static constexpr std::string_view kExact[] = {"prim.cast",    "prim.copy",    "prim.neg",   "prim.abs",
                                                "prim.maximum", "prim.minimum", "prim.clamp", "prim.sign"};
  const bool computes = row.shape == ir::ShapeRule::Same || row.shape == ir::ShapeRule::Reduce ||
                        row.shape == ir::ShapeRule::ReduceOne || row.shape == ir::ShapeRule::Scatter;
  return computes && std::find(std::begin(kExact), std::end(kExact), row.name) == std::end(kExact);
}

/// Whether a low precision dtype holds the number exactly: the prim's literal would round it, ATen's scalar
/// does not. Both dtypes hold integers up to 256 and those times small powers of two.
bool isExactInLowPrecision(double number) {
  if (number == 0 || !std::isfinite(number))
    return true;
  int exponent = 0;
  const double mantissa = std::frexp(number, &exponent) * 256; // 8 bits, as bf16
  return mantissa == std::floor(mantissa) && exponent > -14 && exponent <= 15;
}

bool isLowPrecision(ir::DType dtype) { return dtype == ir::DType::Half || dtype == ir::DType::BFloat16; }

bool losesBits(const Operand &operand) {
  if (operand.kind != Operand::Kind::Literal)
    return false;
  if (operand.literal.kind() == ir::Attr::Kind::Float)
    return !isExactInLowPrecision(operand.literal.asReal());
  const bool isNumber = operand.literal.isInt() && operand.literal.asDim().isConstant();
  return !isNumber || !isExactInLowPrecision(static_cast<double>(operand.literal.asInt()));
}

/// Literals that lose bits in the dtype of the operands: as bad as a rounding.
size_t inexactLiterals(const std::vector<Operand> &operands) {
  auto isLow = [](const Operand &operand) {
    return operand.isValue() && isLowPrecision(operand.value->type.dtype);
  };
  if (std::none_of(operands.begin(), operands.end(), isLow))
    return 0;
  return static_cast<size_t>(std::count_if(operands.begin(), operands.end(), losesBits));
}

/// The dtype that tensors take beside the literals: those of a higher kind win.
ir::DType besideLiterals(ir::DType dtype, const std::vector<Operand> &operands) {
  for (const Operand &operand : operands) {
    if (operand.kind != Operand::Kind::Literal)
      continue;
    if (operand.literal.kind() == ir::Attr::Kind::Float && !ir::isFloating(dtype) && !ir::isComplex(dtype))
      dtype = ir::DType::Float;
    if (operand.literal.isInt() && dtype == ir::DType::Bool)
      dtype = ir::DType::Long;
  }
  return dtype;
}

} // namespace

std::string CoreBuilder::baseName() const { return origin_.results().empty() ? "t" : origin_.result()->name; }

ir::Op *CoreBuilder::insert(std::string_view name, std::vector<Operand> operands, Attrs attrs) {
  ir::Op *op = graph_.insertBefore(&origin_, ir::Op::Kind::Call, std::string(name), std::move(operands),
                                   std::move(attrs));
  op->state = origin_.state;
  made_.push_back(op);
  return op;
}

Value *CoreBuilder::prim(std::string_view name, std::vector<Operand> operands, Attrs attrs) {
  const ir::PrimRow *row = ir::findPrim(name);
  GO_ASSERT(row, "no such prim: " + std::string(name));
  roundings_ += (rounds(*row) ? 1 : 0) + inexactLiterals(operands);
  ir::Op *op = insert(name, std::move(operands), std::move(attrs));
  auto inferred = ir::inferTypes(*row, *op, graph_.syms);
  if (const std::string *reason = std::get_if<std::string>(&inferred))
    throw CannotDecompose{fmt::format("'{}' {}", name, *reason)};
  ir::Type type = std::get<std::vector<ir::Type>>(inferred).front();
  if (row->fusion == ir::FusionClass::Create && !origin_.results().empty())
    type.device = origin_.result()->type.device;
  return graph_.addResult(op, baseName(), std::move(type));
}

Value *CoreBuilder::point(std::string_view name, std::vector<Operand> operands) {
  const size_t from = name == "prim.where" ? 1 : 0; // the condition keeps its dtype
  std::vector<std::vector<ir::Dim>> sizes;
  for (const Operand &operand : operands)
    if (operand.isValue())
      sizes.push_back(operand.value->type.sizes);
  const auto size = broadcastSizes(sizes, syms());
  if (!size)
    throw CannotDecompose{fmt::format("'{}' cannot show that its operands' sizes fit", name)};
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].isValue())
      continue;
    Value *x = operands[i].value;
    if (i >= from)
      x = cast(x, besideLiterals(x->type.dtype, operands));
    operands[i] = Operand::of(broadcast(x, *size));
  }
  return prim(name, std::move(operands));
}

Value *CoreBuilder::call(std::string_view name, std::vector<Operand> operands, Attrs attrs, ir::Type type) {
  ir::Op *op = insert(name, std::move(operands), std::move(attrs));
  return graph_.addResult(op, baseName(), std::move(type));
}

Value *CoreBuilder::cast(Value *x, ir::DType dtype) {
  if (x->type.dtype == dtype)
    return x;
  return prim("prim.cast", {Operand::of(x)}, {{"dtype", ir::Attr::word(std::string(ir::dtypeName(dtype)))}});
}

Value *CoreBuilder::broadcast(Value *x, const std::vector<ir::Dim> &size) {
  if (x->type.sizes == size)
    return x;
  return prim("prim.broadcast", {Operand::of(x)}, {{"size", ir::dimList(size)}});
}

Value *CoreBuilder::reshape(Value *x, const std::vector<ir::Dim> &shape) {
  if (x->type.sizes == shape)
    return x;
  return prim("prim.reshape", {Operand::of(x)}, {{"shape", ir::dimList(shape)}});
}

Value *CoreBuilder::copy(Value *x) { return prim("prim.copy", {Operand::of(x)}); }

bool CoreBuilder::made(const Value *value) const {
  return std::find(made_.begin(), made_.end(), value->def) != made_.end();
}

void CoreBuilder::rollBack() {
  for (auto op = made_.rbegin(); op != made_.rend(); ++op)
    graph_.erase(*op);
  made_.clear();
  roundings_ = 0;
}

void CoreBuilder::dropUnused(const std::vector<Value *> &kept) {
  auto isKept = [&](const Value *value) {
    return value->hasUses() || std::find(kept.begin(), kept.end(), value) != kept.end();
  };
  for (size_t i = made_.size(); i-- > 0;) {
    const auto &results = made_[i]->results();
    if (std::any_of(results.begin(), results.end(), isKept))
      continue;
    graph_.erase(made_[i]);
    made_.erase(made_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

} // namespace graphopt::passes
