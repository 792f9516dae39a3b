// Prims compute by logical index, so a layout is a copy at worst.
#include "runtime/prim_layout.h"

#include <ATen/Functions.h>
#include <algorithm>

namespace graphopt::runtime {
namespace {

std::vector<int64_t> contiguousStrides(at::IntArrayRef sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i > 1; --i)
    strides[i - 2] = strides[i - 1] * std::max<int64_t>(sizes[i - 1], 1);
  return strides;
}

/// The strides under the syms; those of the tensor itself where a sym is not known.
std::vector<int64_t> stridesOf(const ir::Type &type, const SymValues &syms, const at::Tensor &result) {
  if (!type.strides)
    return contiguousStrides(result.sizes());
  std::vector<int64_t> strides;
  for (const ir::Dim &stride : *type.strides) {
    const std::optional<int64_t> value = ir::evaluate(stride, syms);
    if (!value)
      return result.strides().vec();
    strides.push_back(*value);
  }
  return strides;
}

bool hasOverlap(at::IntArrayRef sizes, at::IntArrayRef strides) {
  for (size_t i = 0; i < sizes.size(); ++i)
    if (strides[i] == 0 && sizes[i] > 1)
      return true;
  return false;
}
} // namespace

at::Tensor laidOut(const at::Tensor &result, const ir::Type &type, const SymValues &syms, bool mayAlias) {
  const std::vector<int64_t> strides = stridesOf(type, syms, result);
  const bool isInPlace = result.strides() == at::IntArrayRef(strides);
  if (hasOverlap(result.sizes(), strides))
    return isInPlace ? result : result.clone(at::MemoryFormat::Contiguous);
  if (isInPlace && !mayAlias)
    return result;
  at::Tensor copy = at::empty_strided(result.sizes(), strides, result.options());
  return copy.copy_(result);
}

} // namespace graphopt::runtime
