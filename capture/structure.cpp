// Nested values as a shape over a flat list of tensors, and back.
#include "capture/capture.h"

namespace graphopt::capture {
namespace {

using Kind = Structure::Kind;

bool holdsTensor(const c10::IValue &value) {
  if (value.isTensor())
    return value.toTensor().defined();
  if (value.isTuple())
    return std::any_of(value.toTupleRef().elements().begin(), value.toTupleRef().elements().end(),
                       holdsTensor);
  if (value.isList()) {
    auto items = value.toListRef();
    return std::any_of(items.begin(), items.end(), holdsTensor);
  }
  if (value.isGenericDict())
    for (const auto &entry : value.toGenericDict())
      if (holdsTensor(entry.value()))
        return true;
  return false;
}

Structure flattenDict(const c10::IValue &value, std::vector<at::Tensor> &leaves) {
  Structure structure;
  structure.kind = Kind::Dict;
  auto dict = value.toGenericDict();
  structure.constant = c10::impl::GenericDict(dict.keyType(), dict.valueType()); // an empty one: its types
  for (const auto &entry : dict) {
    structure.keys.push_back(entry.key());
    structure.children.push_back(flatten(entry.value(), leaves));
  }
  return structure;
}

Structure flattenList(const c10::IValue &value, std::vector<at::Tensor> &leaves) {
  Structure structure;
  auto items = value.toListRef();
  auto elementType = value.toList().elementType();
  structure.kind = elementType->kind() == c10::TypeKind::OptionalType ? Kind::OptionalTensorList : Kind::List;
  structure.constant = c10::impl::GenericList(elementType);
  for (const c10::IValue &item : items)
    structure.children.push_back(flatten(item, leaves));
  return structure;
}

bool equalConstants(const c10::IValue &a, const c10::IValue &b) {
  if (a.tagKind() != b.tagKind())
    return false;
  if (a.isTensor()) // undefined ones
    return true;
  if (a.isObject() || a.isCapsule() || a.isGenerator())
    return a.is(b);
  if (a.isDouble()) // by bits: a nan equals itself
    return std::bit_cast<uint64_t>(a.toDouble()) == std::bit_cast<uint64_t>(b.toDouble());
  return a == b;
}

std::string_view kindName(Kind kind) {
  switch (kind) {
  case Kind::Tensor:
    return "a tensor";
  case Kind::Constant:
    return "a plain value";
  case Kind::Tuple:
    return "a tuple";
  case Kind::List:
    return "a list";
  case Kind::OptionalTensorList:
    return "a list of optional tensors";
  case Kind::Dict:
    return "a dict";
  }
  return "";
}

} // namespace

Structure flatten(const c10::IValue &value, std::vector<at::Tensor> &leaves) {
  Structure structure;
  if (!holdsTensor(value)) {
    structure.constant = value;
    return structure;
  }
  if (value.isTensor()) {
    structure.kind = Kind::Tensor;
    structure.leaf = leaves.size();
    leaves.push_back(value.toTensor());
    return structure;
  }
  if (value.isGenericDict())
    return flattenDict(value, leaves);
  if (value.isList())
    return flattenList(value, leaves);
  structure.kind = Kind::Tuple;
  for (const c10::IValue &item : value.toTupleRef().elements())
    structure.children.push_back(flatten(item, leaves));
  return structure;
}

c10::IValue unflatten(const Structure &structure, const std::vector<at::Tensor> &leaves) {
  switch (structure.kind) {
  case Kind::Tensor:
    return leaves.at(structure.leaf);
  case Kind::Constant:
    return structure.constant;
  case Kind::Tuple: {
    std::vector<c10::IValue> items;
    for (const Structure &child : structure.children)
      items.push_back(unflatten(child, leaves));
    return c10::ivalue::Tuple::create(std::move(items));
  }
  case Kind::List:
  case Kind::OptionalTensorList: {
    c10::impl::GenericList list(structure.constant.toList().elementType());
    for (const Structure &child : structure.children)
      list.push_back(unflatten(child, leaves));
    return list;
  }
  case Kind::Dict: {
    auto prototype = structure.constant.toGenericDict();
    c10::impl::GenericDict dict(prototype.keyType(), prototype.valueType());
    for (size_t i = 0; i < structure.children.size(); ++i)
      dict.insert(structure.keys[i], unflatten(structure.children[i], leaves));
    return dict;
  }
  }
  return {};
}

std::string difference(const Structure &a, const Structure &b) {
  if (a.kind != b.kind)
    return fmt::format("{}, expected {}", kindName(b.kind), kindName(a.kind));
  if (a.kind == Kind::Constant)
    return equalConstants(a.constant, b.constant) ? "" : "another value";
  if (a.children.size() != b.children.size())
    return fmt::format("{} items, expected {}", b.children.size(), a.children.size());
  for (size_t i = 0; i < a.keys.size(); ++i)
    if (!(a.keys[i] == b.keys[i]))
      return "other keys";
  for (size_t i = 0; i < a.children.size(); ++i)
    if (std::string inner = difference(a.children[i], b.children[i]); !inner.empty())
      return fmt::format("item {}: {}", i, inner);
  return "";
}

} // namespace graphopt::capture
