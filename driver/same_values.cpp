// Equal bytes are the common case, and cost no memory of note; only what differs is looked at as numbers.
#include "driver/same_values.h"

#include "ir/dtype.h"
#include "runtime/compare.h"

#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace graphopt::driver {
namespace {

/// Of the largest magnitude in the tensor: sums of thousands of numbers in another order stay below it.
double roundingOf(at::ScalarType dtype) {
  switch (c10::toRealValueType(dtype)) {
  case at::kDouble:
    return 1e-12;
  case at::kFloat:
    return 1e-4;
  case at::kHalf:
    return 1e-2;
  default:
    return at::isFloatingType(dtype) ? 4e-2 : 0;
  }
}

std::string describe(const at::Tensor &tensor) {
  if (!tensor.defined())
    return "undefined";
  return fmt::format("{}[{}] strides [{}]", ir::dtypeName(tensor.scalar_type()),
                     fmt::join(tensor.sizes(), ", "), fmt::join(tensor.strides(), ", "));
}

/// The largest magnitude that is a number.
double scaleOf(const at::Tensor &contents) {
  if (contents.numel() == 0)
    return 0;
  const at::Tensor real = contents.is_complex() ? at::view_as_real(contents) : contents;
  return real.to(at::kDouble).abs().nan_to_num(0, 0, 0).max().item<double>();
}

} // namespace

at::Tensor contentsOf(const at::Tensor &tensor) {
  const c10::InferenceMode plain(false);
  const at::NoGradGuard noGrad;
  at::Tensor dense = tensor.detach();
  if (dense.layout() != c10::kStrided)
    dense = dense.to_dense();
  if (dense.is_quantized())
    dense = dense.int_repr();
  return dense.resolve_conj().resolve_neg().clone(at::MemoryFormat::Contiguous);
}

Nearness nearness(const at::Tensor &a, const at::Tensor &b) {
  const c10::InferenceMode plain(false);
  const at::NoGradGuard noGrad;
  if (a.is_meta())
    return Nearness::Same;
  const at::Tensor x = contentsOf(a), y = contentsOf(b);
  if (x.numel() == 0 || at::equal(x.flatten().view(at::kByte), y.flatten().view(at::kByte)))
    return Nearness::Same;
  const runtime::Difference difference = runtime::compare(x, y);
  if (difference.bitEqual)
    return Nearness::Same;
  const bool isNear = difference.maxAbsolute <= roundingOf(x.scalar_type()) * scaleOf(x);
  return isNear ? Nearness::Rounding : Nearness::Apart;
}

std::string metadataDifference(const at::Tensor &expected, const at::Tensor &actual) {
  const std::string want = describe(expected), got = describe(actual);
  return want == got ? "" : fmt::format("{}, not {}", got, want);
}

} // namespace graphopt::driver
