// Conversions keep tensors as they are (handles, no copies): aliasing and identity pass through.
#include "driver/tree_value.h"

#include <fmt/format.h>

namespace graphopt::driver {
namespace {

template <class T> c10::IValue typedList(const std::vector<Tree> &items) {
  c10::List<T> list;
  list.reserve(items.size());
  for (const Tree &item : items)
    list.push_back(*item.get<T>());
  return list;
}

template <class T> bool allAre(const std::vector<Tree> &items) {
  for (const Tree &item : items)
    if (!item.get<T>())
      return false;
  return !items.empty();
}

c10::IValue listValue(const std::vector<Tree> &items) {
  if (allAre<at::Tensor>(items))
    return typedList<at::Tensor>(items);
  if (allAre<int64_t>(items))
    return typedList<int64_t>(items);
  if (allAre<double>(items))
    return typedList<double>(items);
  if (allAre<bool>(items))
    return typedList<bool>(items);
  if (allAre<std::string>(items))
    return typedList<std::string>(items);
  c10::impl::GenericList list(c10::AnyType::get());
  for (const Tree &item : items)
    list.push_back(toIValue(item));
  return list;
}

std::vector<Tree> treesOf(c10::ArrayRef<c10::IValue> values) {
  std::vector<Tree> trees;
  trees.reserve(values.size());
  for (const c10::IValue &value : values)
    trees.push_back(toTree(value));
  return trees;
}

/// A list of (key, value) tuples in the order of insertion.
Tree dictTree(const c10::IValue &value) {
  Tree::List list;
  for (const auto &entry : value.toGenericDict())
    list.items.emplace_back(Tree::Tuple{{toTree(entry.key()), toTree(entry.value())}});
  return Tree(std::move(list));
}

struct ToIValue {
  c10::IValue operator()(std::monostate) const { return {}; }
  c10::IValue operator()(const Tree::List &list) const { return listValue(list.items); }
  c10::IValue operator()(const Tree::Tuple &tuple) const {
    std::vector<c10::IValue> items;
    for (const Tree &item : tuple.items)
      items.push_back(toIValue(item));
    return c10::ivalue::Tuple::create(std::move(items));
  }
  template <class T> c10::IValue operator()(const T &value) const { return value; }
};

} // namespace

c10::IValue toIValue(const Tree &tree) { return std::visit(ToIValue(), tree.variant()); }

Tree toTree(const c10::IValue &value) {
  if (value.isNone())
    return Tree();
  if (value.isTensor())
    return Tree(value.toTensor());
  if (value.isBool())
    return Tree(value.toBool());
  if (value.isInt())
    return Tree(value.toInt());
  if (value.isDouble())
    return Tree(value.toDouble());
  if (value.isString())
    return Tree(value.toStringRef());
  if (value.isTuple())
    return Tree(Tree::Tuple{treesOf(value.toTupleRef().elements().vec())});
  if (value.isList())
    return Tree(Tree::List{treesOf(value.toListRef())});
  if (value.isGenericDict())
    return dictTree(value);
  userError(fmt::format(
      "a value of type {} cannot pass through a compiled callable: return tensors, scalars, strings, "
      "lists, tuples or dictionaries of them",
      value.tagKind()));
}

} // namespace graphopt::driver
