// Checks shared by the shape rules, with messages that carry both sides.
#include "ir/shape_rules_operands.h"

#include <algorithm>

namespace graphopt::ir {

namespace {
/// A number may be written for a dtype when the dtype holds its kind: no 0.5 beside i64, no true beside f32.
bool fits(const Attr &literal, DType dtype) {
  switch (literal.kind()) {
  case Attr::Kind::Bool:
    return dtype == DType::Bool;
  case Attr::Kind::Int:
    return dtype != DType::Bool;
  case Attr::Kind::Float:
    return isFloating(dtype) || isComplex(dtype);
  case Attr::Kind::Complex:
    return isComplex(dtype);
  case Attr::Kind::None:
  case Attr::Kind::String:
  case Attr::Kind::Word:
  case Attr::Kind::List:
  case Attr::Kind::Opaque:
    return false;
  }
  return false;
}
} // namespace

bool accepts(Accepts accepted, DType dtype) {
  bool real = isInteger(dtype) || isFloating(dtype);
  switch (accepted) {
  case Accepts::Any:
    return true;
  case Accepts::Number:
    return real || isComplex(dtype);
  case Accepts::Ordered:
    return real || dtype == DType::Bool;
  case Accepts::Real:
    return real;
  case Accepts::Inexact:
    return isFloating(dtype) || isComplex(dtype);
  case Accepts::Floating:
    return isFloating(dtype);
  case Accepts::Bits:
    return isInteger(dtype) || dtype == DType::Bool;
  case Accepts::Integer:
    return isInteger(dtype);
  case Accepts::Bool:
    return dtype == DType::Bool;
  case Accepts::Summable:
    return isFloating(dtype) || isComplex(dtype) || dtype == DType::Long;
  }
  return false;
}

std::string_view toString(Accepts accepted) {
  switch (accepted) {
  case Accepts::Any:
    return "any dtype";
  case Accepts::Number:
    return "a number";
  case Accepts::Ordered:
    return "a dtype with an order";
  case Accepts::Real:
    return "an integer or floating dtype";
  case Accepts::Inexact:
    return "a floating or complex dtype";
  case Accepts::Floating:
    return "a floating dtype";
  case Accepts::Bits:
    return "an integer dtype or bool";
  case Accepts::Integer:
    return "an integer dtype";
  case Accepts::Bool:
    return "bool";
  case Accepts::Summable:
    return "a floating or complex dtype or i64";
  }
  return "";
}

PrimOperands::PrimOperands(const PrimRow &row, const Op &op, const std::vector<Sym> &syms)
    : op_(op), syms_(syms) {
  PrimSignature signature = signatureOf(row);
  if (!signature.list)
    operands_ = op.operands();
  else if (op.operands().size() == 1 && op.operands()[0].kind == Operand::Kind::List)
    operands_ = op.operands()[0].items;
  else
    refuse("expected one list operand '{}'", signature.operands[0]);
  requireOperands(signature, row);
  requireAttrs(signature);
}

void PrimOperands::requireOperands(const PrimSignature &signature, const PrimRow &row) const {
  if (signature.list && operands_.empty())
    refuse("expected at least one item in the list '{}'", signature.operands[0]);
  if (!signature.list && operands_.size() != signature.operands.size())
    refuse("expected {} operands, got {}", signature.operands.size(), operands_.size());
  bool anyValue = operands_.empty();
  for (size_t i = 0; i < operands_.size(); ++i) {
    requirePlain(i, row);
    anyValue |= operands_[i].kind == Operand::Kind::Value;
  }
  if (!anyValue)
    refuse("expected at least one operand that is no literal");
}

void PrimOperands::requirePlain(size_t i, const PrimRow &row) const {
  const Operand &operand = operands_[i];
  bool literalAllowed = row.fusion == FusionClass::Point && operands_.size() > 1;
  if (operand.kind == Operand::Kind::Literal && literalAllowed)
    return;
  const Type &type = value(i);
  if (type.conj || type.neg)
    refuse("operand #{} is lazily {}: make it plain first", i, type.conj ? "conjugated" : "negated");
  // Conditions and indices have rules of their own.
  bool isData = !(row.shape == ShapeRule::Where && i == 0) && !(row.fusion == FusionClass::Gather && i == 1);
  if (isData && !accepts(row.accepts, type.dtype))
    refuse("operand #{} is {}, expected {}", i, toString(type), toString(row.accepts));
}

void PrimOperands::requireAttrs(const PrimSignature &signature) const {
  for (const NamedAttr &given : op_.attrs)
    if (std::find(signature.attrs.begin(), signature.attrs.end(), given.name) == signature.attrs.end())
      refuse("unknown attribute '{}'", given.name);
  for (std::string_view name : signature.attrs)
    if (!op_.attr(name))
      refuse("missing attribute '{}'", name);
}

const Type &PrimOperands::value(size_t i) const {
  const Operand &operand = operands_.at(i);
  if (operand.kind != Operand::Kind::Value)
    refuse("operand #{} is no value", i);
  if (!operand.value->type.isTensor())
    refuse("operand #{} is {}, expected a tensor", i, toString(operand.value->type));
  return operand.value->type;
}

const Type &PrimOperands::firstFrom(size_t from) const {
  for (size_t i = from; i < operands_.size(); ++i)
    if (operands_[i].kind == Operand::Kind::Value)
      return value(i);
  refuse("expected a value among the operands from #{} on", from);
}

const Type &PrimOperands::indexOperand(size_t i) const {
  const Type &type = value(i);
  if (type.dtype != DType::Long)
    refuse("operand #{} is {}, expected i64 indices", i, toString(type));
  return type;
}

void PrimOperands::requireAlike(size_t from) const {
  const Type &model = firstFrom(from);
  for (size_t i = from; i < operands_.size(); ++i) {
    const Operand &operand = operands_[i];
    if (operand.kind == Operand::Kind::Literal) {
      if (!fits(operand.literal, model.dtype))
        refuse("operand #{} is {}, which is no {}", i, toString(operand.literal), dtypeName(model.dtype));
      continue;
    }
    const Type &type = value(i);
    if (type.dtype != model.dtype || !equalSizes(type.sizes, model.sizes))
      refuse("operand #{} is {}, expected {} like the other operands", i, toString(type),
             toString(Type::tensor(model.dtype, model.sizes)));
  }
}

void PrimOperands::requireSizes(size_t i, const std::vector<Dim> &sizes, std::string_view whose) const {
  const Type &type = value(i);
  if (!equalSizes(type.sizes, sizes))
    refuse("operand #{} is {}, expected {} like {}", i, toString(type),
           toString(Type::tensor(type.dtype, sizes)), whose);
}

const Attr &PrimOperands::attr(std::string_view name) const {
  const Attr *found = op_.attr(name);
  GO_ASSERT(found, "a shape rule asks for an attribute that the row does not name");
  return *found;
}

Dim PrimOperands::intAttr(std::string_view name) const {
  if (!attr(name).isInt())
    refuse("attribute '{}' is {}, expected an integer", name, toString(attr(name)));
  return attr(name).asDim();
}

int64_t PrimOperands::stepAttr(std::string_view name) const {
  Dim step = intAttr(name);
  if (!step.isConstant() || step.value() < 1)
    refuse("attribute '{}' is {}, expected a constant of at least 1", name, toString(step));
  return step.value();
}

bool PrimOperands::boolAttr(std::string_view name) const {
  if (attr(name).kind() != Attr::Kind::Bool)
    refuse("attribute '{}' is {}, expected true or false", name, toString(attr(name)));
  return attr(name).asBool();
}

DType PrimOperands::dtypeAttr(std::string_view name) const {
  std::optional<DType> dtype;
  if (attr(name).kind() == Attr::Kind::Word)
    dtype = parseDType(attr(name).text());
  if (!dtype)
    refuse("attribute '{}' is {}, expected a dtype", name, toString(attr(name)));
  return *dtype;
}

std::vector<Dim> PrimOperands::intsAttr(std::string_view name) const {
  std::vector<Dim> found;
  bool isInts = attr(name).isList();
  for (size_t i = 0; isInts && i < attr(name).items().size(); ++i) {
    const Attr &item = attr(name).items()[i];
    isInts = item.isInt();
    if (isInts)
      found.push_back(item.asDim());
  }
  if (!isInts)
    refuse("attribute '{}' is {}, expected a list of integers", name, toString(attr(name)));
  return found;
}

std::vector<Dim> PrimOperands::sizesAttr(std::string_view name) const {
  std::vector<Dim> sizes = intsAttr(name);
  for (const Dim &size : sizes)
    if (!atMost(0, size))
      refuse("attribute '{}' has {}, expected no negative size", name, toString(size));
  return sizes;
}

size_t PrimOperands::dimAttr(std::string_view name, size_t rank) const {
  Dim dim = intAttr(name);
  if (!dim.isConstant() || dim.value() < 0 || dim.value() >= static_cast<int64_t>(rank))
    refuse("attribute '{}' is {}, expected a dim below {}", name, toString(dim), rank);
  return static_cast<size_t>(dim.value());
}

std::vector<size_t> PrimOperands::dimsAttr(std::string_view name, size_t rank) const {
  std::vector<size_t> dims;
  for (const Dim &dim : intsAttr(name)) {
    if (!dim.isConstant() || dim.value() < 0 || dim.value() >= static_cast<int64_t>(rank))
      refuse("attribute '{}' has {}, expected dims below {}", name, toString(dim), rank);
    size_t position = static_cast<size_t>(dim.value());
    if (std::find(dims.begin(), dims.end(), position) != dims.end())
      refuse("attribute '{}' names dim {} twice", name, position);
    dims.push_back(position);
  }
  return dims;
}

void PrimOperands::requireNumberAttr(std::string_view name, DType dtype) const {
  if (!fits(attr(name), dtype))
    refuse("attribute '{}' is {}, which is no {}", name, toString(attr(name)), dtypeName(dtype));
}

bool PrimOperands::equalSizes(const std::vector<Dim> &a, const std::vector<Dim> &b) const {
  auto same = [&](const Dim &x, const Dim &y) { return equal(x, y); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

bool PrimOperands::atMost(const Dim &a, const Dim &b) const {
  return rangeOf(simplify(b - a, syms_), syms_).lo >= 0;
}

Dim PrimOperands::stepsBetween(const Dim &start, const Dim &end, int64_t step) const {
  if (!atMost(start, end))
    refuse("[{}, {}) ends before it starts", toString(start), toString(end));
  return simplify(Dim::floorDiv(end - start + Dim(step - 1), step), syms_);
}

Type PrimOperands::result(DType dtype, std::vector<Dim> sizes) const {
  Type type = Type::tensor(dtype, std::move(sizes));
  for (const Operand &operand : operands_)
    if (operand.kind == Operand::Kind::Value) {
      type.device = operand.value->type.device;
      break;
    }
  return type;
}

} // namespace graphopt::ir
