// What rules for sizes ask of a row: its arguments by name, sizes and integers.
#pragma once
#include "capture/shapes.h"

#include <string_view>
#include <vector>

namespace graphopt::capture {

/// A row's arguments by name.
class RowArguments {
public:
  RowArguments(const Segment &segment, const RowInfo &info) : segment_(segment), info_(info) {}

  /// Sizes of a tensor argument; null: not given.
  const Sizes *tensor(std::string_view name) const {
    const auto *ids = find(name);
    return ids && !ids->empty() && ids->front() != 0 ? &sizes(ids->front()) : nullptr;
  }
  /// Of the first argument.
  const Sizes *first() const {
    const auto &ids = info_.operands[0];
    return ids.empty() || ids.front() == 0 ? nullptr : &sizes(ids.front());
  }
  std::vector<Sizes> tensors(std::string_view name) const {
    std::vector<Sizes> all;
    if (const auto *ids = find(name))
      for (ValueId id : *ids)
        all.push_back(sizes(id));
    return all;
  }
  c10::IValue value(std::string_view name) const {
    for (size_t i = 0; i < info_.facts->arguments.size(); ++i)
      if (info_.facts->arguments[i].name == name)
        return info_.arguments[i];
    return {};
  }
  /// A list of `count` integers, of which a single one stands for all.
  std::vector<int64_t> integers(std::string_view name, size_t count) const {
    std::vector<int64_t> values = list(name);
    if (values.size() == 1)
      values.resize(count, values[0]);
    return values;
  }
  std::vector<int64_t> list(std::string_view name) const {
    c10::IValue given = value(name);
    if (given.isInt())
      return {given.toInt()};
    return given.isIntList() ? given.toIntVector() : std::vector<int64_t>();
  }
  bool flag(std::string_view name) const {
    c10::IValue given = value(name);
    return given.isBool() && given.toBool();
  }

private:
  const Sizes &sizes(ValueId id) const { return segment_.values[id].metadata.sizes; }
  const ValueIds *find(std::string_view name) const {
    for (size_t i = 0; i < info_.facts->arguments.size(); ++i)
      if (info_.facts->arguments[i].name == name)
        return &info_.operands[i];
    return nullptr;
  }
  const Segment &segment_;
  const RowInfo &info_;
};

} // namespace graphopt::capture
