// Density from sizes and strides, by LibTorch's own rule for "non-overlapping and dense" (dims of size 0 and
// 1 do not count), extended to symbolic sizes where equality can be proved.
#include "passes/density.h"

#include <algorithm>

namespace graphopt::passes {
namespace {

struct Axis {
  ir::Dim size, stride;
};

std::vector<Axis> countingAxes(const ir::Type &type) {
  std::vector<Axis> axes;
  const std::vector<ir::Dim> strides = type.stridesOrContiguous();
  for (size_t i = 0; i < type.rank(); ++i)
    if (!type.sizes[i].isConstant() || type.sizes[i].value() > 1)
      axes.push_back({type.sizes[i], strides[i]});
  return axes;
}

/// Takes axes from the innermost outwards; each must step over all of the ones before it.
bool isDense(std::vector<Axis> axes, const std::vector<ir::Sym> &syms) {
  ir::Dim expected = 1;
  while (!axes.empty()) {
    auto next = std::find_if(axes.begin(), axes.end(), [&](const Axis &axis) {
      return ir::provablyEqual(axis.stride, expected, syms);
    });
    if (next == axes.end())
      return false;
    expected = expected * next->size;
    axes.erase(next);
  }
  return true;
}

/// Sufficient: sorted by stride, each axis steps further than all smaller ones reach together.
bool isApart(const std::vector<Axis> &axes) {
  std::vector<std::pair<int64_t, int64_t>> steps; // stride, size
  for (const Axis &axis : axes) {
    if (!axis.size.isConstant() || !axis.stride.isConstant())
      return false;
    steps.push_back({axis.stride.value(), axis.size.value()});
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;
  for (const auto &[stride, size] : steps) {
    if (stride <= reach)
      return false;
    reach += stride * (size - 1);
  }
  return true;
}

} // namespace

Density densityOf(const ir::Type &type, const std::vector<ir::Sym> &syms) {
  if (!type.strides)
    return Density::Dense;
  for (const ir::Dim &size : type.sizes)
    if (size.isConstant() && size.value() == 0)
      return Density::Dense; // no element, no gap
  const std::vector<Axis> axes = countingAxes(type);
  if (isDense(axes, syms))
    return Density::Dense;
  return isApart(axes) ? Density::Gapped : Density::Unknown;
}

} // namespace graphopt::passes
