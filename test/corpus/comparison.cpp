// Comparison is written out here and shares nothing with what it checks.
#include "comparison.h"

#include "capture/capture.h"
#include "ir/print.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace graphopt::corpus {
namespace {

std::string describe(const at::Tensor &t) {
  return t.defined()
             ? capture::typeOf(t).kind == ir::Type::Kind::Tensor ? ir::toString(capture::typeOf(t)) : "?"
             : "undefined";
}

bool sameBits(at::Tensor a, at::Tensor b) {
  if (a._is_zerotensor() != b._is_zerotensor())
    return false;
  if (a.numel() == 0 || a._is_zerotensor())
    return true;
  a = a.resolve_conj().resolve_neg().contiguous();
  b = b.resolve_conj().resolve_neg().contiguous();
  return std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

/// Two units in the last place of the largest number, for dtypes that hold few digits.
double toleranceOf(at::ScalarType dtype, double tolerance) {
  return dtype == at::kBFloat16 ? 0x1p-6 : dtype == at::kHalf ? 0x1p-9 : tolerance;
}

/// Within `tolerance` times the largest finite number of `want`, or a thousandth where all of it cancels;
/// what is not finite is the same.
std::string distance(const at::Tensor &want, const at::Tensor &got, double tolerance) {
  if (sameBits(want, got))
    return "";
  if (!want.is_floating_point() && !want.is_complex())
    return "values differ";
  auto parts = [](const at::Tensor &t) {
    const at::Tensor wide = t.resolve_conj().resolve_neg();
    return (wide.is_complex() ? at::view_as_real(wide) : wide).to(at::kDouble).contiguous();
  };
  const at::Tensor a = parts(want), b = parts(got), finite = a.isfinite();
  if (!at::where(finite, b.isfinite(), (a == b) | (a.isnan() & b.isnan())).all().item<bool>())
    return "infinities or NaNs differ";
  const double largest = at::where(finite, a, 0.0).abs().max().item<double>();
  const double most = at::where(finite, a - b, 0.0).abs().max().item<double>();
  return most <= toleranceOf(want.scalar_type(), tolerance) * std::max(largest, 1e-3)
             ? ""
             : fmt::format("off by {:g}, the largest number is {:g}", most, largest);
}

} // namespace

void seedAll(int64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(static_cast<uint64_t>(seed));
}

std::vector<at::Tensor> leavesOf(const std::vector<c10::IValue> &values) {
  std::vector<at::Tensor> leaves;
  for (const c10::IValue &value : values)
    capture::flatten(value, leaves);
  return leaves;
}

std::string difference(const at::Tensor &want, const at::Tensor &got, bool shapeOnly) {
  if (want.defined() != got.defined())
    return want.defined() ? "undefined, eager gives a tensor" : "a tensor, eager gives none";
  if (!want.defined())
    return "";
  if (want.layout() != got.layout())
    return "layout differs";
  if (want.layout() != c10::kStrided)
    return at::equal(want.to_dense(), got.to_dense()) ? "" : "values differ";
  bool sameMeta = want.sizes() == got.sizes() && want.strides() == got.strides() &&
                  want.scalar_type() == got.scalar_type() && want.is_conj() == got.is_conj() &&
                  want.is_neg() == got.is_neg();
  if (!sameMeta)
    return fmt::format("{}, eager gives {}", describe(got), describe(want));
  if (shapeOnly || sameBits(want, got))
    return "";
  auto wide = [](const at::Tensor &t) { return t.to(at::kComplexDouble); };
  double most = at::abs(at::sub(wide(want), wide(got))).max().item().toDouble();
  return fmt::format("bits differ, by at most {:g}", most);
}

std::string differenceIn(const char *what, const std::vector<at::Tensor> &want,
                         const std::vector<at::Tensor> &got, bool shapeOnly) {
  if (want.size() != got.size())
    return fmt::format("{} {}s, eager gives {}", got.size(), what, want.size());
  for (size_t i = 0; i < want.size(); ++i)
    if (std::string d = difference(want[i], got[i], shapeOnly); !d.empty())
      return fmt::format("{} {}: {}", what, i, d);
  return "";
}

std::vector<at::Tensor> withoutUnitStrides(std::vector<at::Tensor> tensors) {
  for (at::Tensor &tensor : tensors)
    for (int64_t d = 0; tensor.defined() && d < tensor.dim(); ++d)
      if (tensor.size(d) == 1)
        tensor = tensor.select(d, 0).unsqueeze(d);
  return tensors;
}

std::string distanceIn(const char *what, const std::vector<at::Tensor> &want,
                       const std::vector<at::Tensor> &got, double tolerance, bool shapeOnly) {
  if (std::string d = differenceIn(what, want, got, /*shapeOnly=*/true); !d.empty() || shapeOnly)
    return d;
  for (size_t i = 0; i < want.size(); ++i)
    if (want[i].defined() && want[i].layout() == c10::kStrided)
      if (std::string d = distance(want[i], got[i], tolerance); !d.empty())
        return fmt::format("{} {}: {}", what, i, d);
  return "";
}

} // namespace graphopt::corpus
