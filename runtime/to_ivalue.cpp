// Conversion by the kind of the schema type; every list is a generic list with the element type that unboxing
// expects.
#include "runtime/to_ivalue.h"

#include "graphopt/error.h"
#include "ir/dtype.h"

#include <ATen/core/jit_type.h>
#include <array>
#include <fmt/format.h>

namespace graphopt::runtime {
namespace {
using c10::IValue;
using c10::TypeKind;
using ir::Attr;

struct LayoutWord {
  std::string_view word;
  c10::Layout layout;
};
constexpr std::array<LayoutWord, 8> kLayouts = {{{"strided", c10::Layout::Strided},
                                                 {"sparse_coo", c10::Layout::Sparse},
                                                 {"sparse_csr", c10::Layout::SparseCsr},
                                                 {"sparse_csc", c10::Layout::SparseCsc},
                                                 {"sparse_bsr", c10::Layout::SparseBsr},
                                                 {"sparse_bsc", c10::Layout::SparseBsc},
                                                 {"mkldnn", c10::Layout::Mkldnn},
                                                 {"jagged", c10::Layout::Jagged}}};

struct FormatWord {
  std::string_view word;
  c10::MemoryFormat format;
};
constexpr std::array<FormatWord, 4> kFormats = {{{"contiguous", c10::MemoryFormat::Contiguous},
                                                 {"preserve", c10::MemoryFormat::Preserve},
                                                 {"channels_last", c10::MemoryFormat::ChannelsLast},
                                                 {"channels_last_3d", c10::MemoryFormat::ChannelsLast3d}}};

std::optional<IValue> fromWord(const Attr &attr, TypeKind kind) {
  if (attr.kind() != Attr::Kind::Word)
    return std::nullopt;
  const std::string &word = attr.text();
  if (kind == TypeKind::ScalarTypeType) {
    if (auto dtype = ir::parseDType(word))
      return IValue(static_cast<int64_t>(*dtype));
  } else if (kind == TypeKind::LayoutType) {
    for (const LayoutWord &row : kLayouts)
      if (row.word == word)
        return IValue(static_cast<int64_t>(row.layout));
  } else if (kind == TypeKind::MemoryFormatType) {
    for (const FormatWord &row : kFormats)
      if (row.word == word)
        return IValue(static_cast<int64_t>(row.format));
  } else if (kind == TypeKind::DeviceObjType) {
    if (auto device = ir::parseDevice(word))
      return IValue(c10::Device(ir::toString(*device)));
  }
  return std::nullopt;
}

std::optional<int64_t> integerOf(const Attr &attr, const SymValues &syms) {
  return attr.isInt() ? evaluate(attr.asDim(), syms) : std::nullopt;
}

std::optional<double> realOf(const Attr &attr, const SymValues &syms) {
  if (attr.kind() == Attr::Kind::Float)
    return attr.asReal();
  if (auto integer = integerOf(attr, syms))
    return static_cast<double>(*integer);
  return std::nullopt;
}

template <class T> std::optional<IValue> wrap(const std::optional<T> &value) {
  return value ? std::optional<IValue>(IValue(*value)) : std::nullopt;
}

/// What a list of `element` is made of on the stack: symbolic ints arrive as plain ones.
c10::TypePtr stackElementType(const c10::TypePtr &element) {
  return element->kind() == TypeKind::SymIntType ? c10::TypePtr(c10::IntType::get()) : element;
}

std::optional<IValue> listFrom(const Attr &attr, const c10::TypePtr &element, const SymValues &syms,
                               std::optional<int32_t> listSize) {
  c10::impl::GenericList list(stackElementType(element));
  if (attr.isList()) {
    for (const Attr &item : attr.items()) {
      auto value = convertAttr(item, *element, syms);
      if (!value)
        return std::nullopt;
      list.push_back(std::move(*value));
    }
    return IValue(list);
  }
  if (!listSize)
    return std::nullopt;
  auto value = convertAttr(attr, *element, syms);
  if (!value)
    return std::nullopt;
  for (int32_t i = 0; i < *listSize; ++i)
    list.push_back(*value);
  return IValue(list);
}

bool holdsOpaque(const Attr &attr) {
  if (attr.kind() == Attr::Kind::Opaque)
    return true;
  if (attr.isList())
    for (const Attr &item : attr.items())
      if (holdsOpaque(item))
        return true;
  return false;
}

template <class Rows, class Member> Attr wordOf(const Rows &rows, Member member, int64_t value) {
  for (const auto &row : rows)
    if (static_cast<int64_t>(row.*member) == value)
      return Attr::word(std::string(row.word));
  return Attr::integer(value);
}

Attr listToAttr(const IValue &value, const c10::Type &element) {
  std::vector<Attr> items;
  for (const IValue &item : value.toListRef())
    items.push_back(toAttr(item, element));
  return Attr::list(std::move(items));
}

} // namespace

std::optional<c10::Scalar> toScalar(const Attr &attr, const SymValues &syms) {
  switch (attr.kind()) {
  case Attr::Kind::Bool:
    return c10::Scalar(attr.asBool());
  case Attr::Kind::Int:
    if (auto value = integerOf(attr, syms))
      return c10::Scalar(*value);
    return std::nullopt;
  case Attr::Kind::Float:
    return c10::Scalar(attr.asReal());
  case Attr::Kind::Complex: {
    auto [re, im] = attr.asComplex();
    return c10::Scalar(c10::complex<double>(re, im));
  }
  case Attr::Kind::None:
  case Attr::Kind::String:
  case Attr::Kind::Word:
  case Attr::Kind::List:
  case Attr::Kind::Opaque:
    return std::nullopt;
  }
  return std::nullopt;
}

Attr toAttr(const c10::Scalar &scalar) {
  if (scalar.isBoolean())
    return Attr::boolean(scalar.toBool());
  if (scalar.isComplex()) {
    auto value = scalar.toComplexDouble();
    return Attr::complex(value.real(), value.imag());
  }
  if (scalar.isFloatingPoint())
    return Attr::real(scalar.toDouble());
  return Attr::integer(scalar.toLong());
}

// The kinds of c10 types are an open set of which schemas use these; everything else has no literal.
std::optional<IValue> convertAttr(const Attr &attr, const c10::Type &type, const SymValues &syms,
                                  std::optional<int32_t> listSize) {
  TypeKind kind = type.kind();
  if (kind == TypeKind::OptionalType) {
    if (attr.isNone())
      return IValue();
    return convertAttr(attr, *type.castRaw<c10::OptionalType>()->getElementType(), syms, listSize);
  }
  if (kind == TypeKind::ListType)
    return listFrom(attr, type.castRaw<c10::ListType>()->getElementType(), syms, listSize);
  if (kind == TypeKind::IntType || kind == TypeKind::SymIntType)
    return wrap(integerOf(attr, syms));
  if (kind == TypeKind::FloatType || kind == TypeKind::SymFloatType)
    return wrap(realOf(attr, syms));
  if (kind == TypeKind::BoolType || kind == TypeKind::SymBoolType)
    return attr.kind() == Attr::Kind::Bool ? std::optional<IValue>(attr.asBool()) : std::nullopt;
  if (kind == TypeKind::NumberType)
    return wrap(toScalar(attr, syms));
  if (kind == TypeKind::StringType)
    return attr.kind() == Attr::Kind::String ? std::optional<IValue>(attr.text()) : std::nullopt;
  if (kind == TypeKind::NoneType)
    return attr.isNone() ? std::optional<IValue>(IValue()) : std::nullopt;
  return fromWord(attr, kind);
}

std::string schemaTypeText(const c10::Argument &argument) {
  std::string text = argument.real_type()->str();
  if (argument.N()) {
    auto bracket = text.find("[]");
    if (bracket != std::string::npos)
      text.insert(bracket + 1, std::to_string(*argument.N()));
  }
  return text;
}

bool isDTypeArgument(const c10::Argument &argument) {
  const c10::Type *type = argument.real_type().get();
  if (type->kind() == TypeKind::OptionalType)
    type = type->castRaw<c10::OptionalType>()->getElementType().get();
  return type->kind() == TypeKind::ScalarTypeType;
}

IValue toIValue(const Attr &attr, const c10::Argument &argument, std::string_view op, const SymValues &syms) {
  if (holdsOpaque(attr))
    userError(
        fmt::format("'{}' op attribute '{}' is {}, which has no text and cannot be run: run the model it was "
                    "recorded from instead",
                    op, argument.name(), toString(attr)));
  auto value = convertAttr(attr, *argument.real_type(), syms, argument.N());
  if (!value)
    userError(fmt::format("'{}' op attribute '{}' is {}, expected {}", op, argument.name(), toString(attr),
                          schemaTypeText(argument)));
  return std::move(*value);
}

Attr toAttr(const IValue &value, const c10::Type &type) {
  TypeKind kind = type.kind();
  if (value.isNone())
    return Attr();
  if (kind == TypeKind::OptionalType)
    return toAttr(value, *type.castRaw<c10::OptionalType>()->getElementType());
  if (kind == TypeKind::ScalarTypeType)
    return Attr::word(std::string(ir::dtypeName(static_cast<c10::ScalarType>(value.toInt()))));
  if (kind == TypeKind::LayoutType)
    return wordOf(kLayouts, &LayoutWord::layout, value.toInt());
  if (kind == TypeKind::MemoryFormatType)
    return wordOf(kFormats, &FormatWord::format, value.toInt());
  if (kind == TypeKind::ListType && value.isList())
    return listToAttr(value, *type.castRaw<c10::ListType>()->getElementType());
  if (value.isBool())
    return Attr::boolean(value.toBool());
  if (value.isInt() || value.isSymInt())
    return Attr::integer(value.toInt());
  if (value.isDouble())
    return Attr::real(value.toDouble());
  if (value.isComplexDouble())
    return toAttr(value.toScalar());
  if (value.isString())
    return Attr::string(value.toStringRef());
  if (value.isDevice()) {
    c10::Device device = value.toDevice();
    return Attr::word(ir::toString(ir::Device{c10::DeviceTypeName(device.type(), true), device.index()}));
  }
  return Attr::opaque(type.str());
}

} // namespace graphopt::runtime
