// What a rule for results without kernels is written with: an operator's arguments by name, and layouts.
#pragma once
#include "capture/bare_rules.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

namespace graphopt::capture {

using Results = std::optional<std::vector<BareResult>>;

class In {
public:
  In(const OperatorFacts &facts, const torch::jit::Stack &arguments) : facts_(facts), arguments_(arguments) {}

  /// Undefined when it is not given.
  at::Tensor tensor(std::string_view name) const {
    const c10::IValue *value = find(name);
    return value && value->isTensor() ? value->toTensor() : at::Tensor();
  }
  std::vector<int64_t> ints(std::string_view name) const {
    const c10::IValue *value = find(name);
    return value && value->isIntList() ? value->toIntVector() : std::vector<int64_t>();
  }
  int64_t number(std::string_view name, int64_t otherwise = 0) const {
    const c10::IValue *value = find(name);
    return value && value->isInt() ? value->toInt() : otherwise;
  }
  bool flag(std::string_view name) const {
    const c10::IValue *value = find(name);
    return value && value->isBool() && value->toBool();
  }
  at::ScalarType dtype(std::string_view name, at::ScalarType otherwise) const {
    return static_cast<at::ScalarType>(number(name, static_cast<int64_t>(otherwise)));
  }
  /// output_mask and the like.
  std::vector<bool> mask(std::string_view name) const {
    std::vector<bool> bits;
    if (const c10::IValue *value = find(name); value && value->isList())
      for (const c10::IValue &bit : value->toListRef())
        bits.push_back(bit.toBool());
    return bits;
  }

private:
  const c10::IValue *find(std::string_view name) const {
    for (size_t i = 0; i < facts_.arguments.size(); ++i)
      if (facts_.arguments[i].name == name)
        return &arguments_[i];
    return nullptr;
  }
  const OperatorFacts &facts_;
  const torch::jit::Stack &arguments_;
};

// ---- layouts

inline std::vector<int64_t> contiguousStrides(const std::vector<int64_t> &sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0; stride *= std::max<int64_t>(sizes[d], 1))
    strides[d] = stride;
  return strides;
}

inline BareResult contiguous(std::vector<int64_t> sizes, at::ScalarType dtype) {
  std::vector<int64_t> strides = contiguousStrides(sizes);
  return {std::move(sizes), std::move(strides), dtype, false};
}

inline BareResult undefined() {
  BareResult result;
  result.isUndefined = true;
  return result;
}

inline BareResult contiguousLike(const at::Tensor &tensor) {
  return contiguous(tensor.sizes().vec(), tensor.scalar_type());
}

/// As empty_like makes them: the strides of a dense tensor.
inline std::optional<BareResult> like(const at::Tensor &tensor) {
  if (!tensor.is_non_overlapping_and_dense())
    return std::nullopt;
  return BareResult{tensor.sizes().vec(), tensor.strides().vec(), tensor.scalar_type(), false};
}

inline Results one(std::optional<BareResult> result) {
  if (!result)
    return std::nullopt;
  return std::vector{std::move(*result)};
}

/// Contiguous, and not to be taken for channels last.
inline bool isPlain(const at::Tensor &tensor) {
  return tensor.defined() && tensor.is_contiguous() &&
         tensor.suggest_memory_format() == at::MemoryFormat::Contiguous;
}

/// Of operators that compute element by element, on operands of one size after broadcasting: laid out as
/// LibTorch's iterator lays out the result of any such operator. Nothing for others.
Results iteratorResults(const OperatorFacts &facts, const In &in);

} // namespace graphopt::capture
