// Everything is computed in f64 on the CPU, where the difference of two numbers of any smaller dtype is exact
// enough to count ulps.
#include "runtime/compare.h"

#include "ir/dtype.h"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

namespace graphopt::runtime {
namespace {
using at::Tensor;

constexpr double kErrorFactor = 1.25, kMeanFactor = 1.05, kUlpAllowance = 2;
constexpr int64_t kMeanNeeds = 64; // elements: fewer have no mean worth comparing

struct FloatFormat {
  int precision;   // bits of the significand, the hidden one included
  int minExponent; // of normal numbers
};

FloatFormat formatOf(at::ScalarType dtype) {
  if (dtype == at::kDouble || dtype == at::kComplexDouble)
    return {53, -1022};
  if (dtype == at::kHalf || dtype == at::kComplexHalf)
    return {11, -14};
  if (dtype == at::kBFloat16)
    return {8, -126};
  if (dtype == at::kFloat8_e4m3fn)
    return {4, -6};
  if (dtype == at::kFloat8_e4m3fnuz)
    return {4, -7};
  if (dtype == at::kFloat8_e5m2)
    return {3, -14};
  if (dtype == at::kFloat8_e5m2fnuz)
    return {3, -15};
  return {24, -126}; // f32, c64
}

/// Dense logical values on the CPU; complex as pairs.
Tensor plain(const Tensor &tensor) {
  Tensor dense = tensor.detach();
  if (dense.layout() != c10::kStrided)
    dense = dense.to_dense();
  dense = dense.to(at::kCPU).resolve_conj().resolve_neg().contiguous();
  return dense.is_complex() ? at::view_as_real(dense) : dense;
}

bool isFloat(at::ScalarType dtype) { return at::isFloatingType(dtype) || at::isComplexType(dtype); }

Tensor sameElements(const Tensor &a, const Tensor &b) {
  at::ScalarType bits = at::kByte;
  switch (a.element_size()) {
  case 2:
    bits = at::kShort;
    break;
  case 4:
    bits = at::kInt;
    break;
  case 8:
    bits = at::kLong;
    break;
  default:
    break;
  }
  Tensor same = a.view(bits).eq(b.view(bits));
  if (!at::isFloatingType(a.scalar_type()))
    return same;
  return same.logical_or(a.to(at::kDouble).isnan().logical_and(b.to(at::kDouble).isnan()));
}

/// |a - b| in f64: 0 for equal infinities and two NaNs, inf where only one is not finite.
Tensor absoluteError(const Tensor &a, const Tensor &b) {
  Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  Tensor agree = x.eq(y).logical_or(x.isnan().logical_and(y.isnan()));
  Tensor error = x.sub(y).abs().masked_fill(agree, 0.0);
  return error.masked_fill(error.isnan(), std::numeric_limits<double>::infinity());
}

double maximum(const Tensor &t) { return t.numel() == 0 ? 0.0 : t.max().item<double>(); }
double average(const Tensor &t) { return t.numel() == 0 ? 0.0 : t.mean().item<double>(); }

std::string describe(const Tensor &t) {
  return t.defined() ? fmt::format("{}[{}]", ir::dtypeName(t.scalar_type()), fmt::join(t.sizes(), ", "))
                     : "undefined";
}

} // namespace

Tensor ulpOf(const Tensor &values, at::ScalarType dtype) {
  if (!isFloat(dtype))
    return at::ones_like(values, at::TensorOptions().dtype(at::kDouble));
  FloatFormat format = formatOf(dtype);
  Tensor magnitude = values.to(at::kDouble).abs().nan_to_num(1.0, 1.0, 1.0);
  Tensor exponent = std::get<1>(at::frexp(magnitude)).to(at::kLong).sub(1);
  exponent = exponent.masked_fill(magnitude.eq(0), format.minExponent).clamp_min(format.minExponent);
  return at::ldexp(at::ones_like(magnitude), exponent.sub(format.precision - 1));
}

Difference compare(const Tensor &expected, const Tensor &actual) {
  Difference result;
  if (!expected.defined() && !actual.defined()) {
    result.sameMeta = result.bitEqual = true;
    return result;
  }
  result.sameMeta = expected.defined() && actual.defined() &&
                    expected.scalar_type() == actual.scalar_type() && expected.sizes() == actual.sizes();
  if (!result.sameMeta) {
    result.reason = fmt::format("expected {}, actual {}", describe(expected), describe(actual));
    return result;
  }
  Tensor want = plain(expected), got = plain(actual);
  result.mismatches = want.numel() - sameElements(want, got).sum().item<int64_t>();
  result.bitEqual = result.mismatches == 0;
  if (result.bitEqual)
    return result;
  Tensor error = absoluteError(want, got), magnitude = want.to(at::kDouble).abs();
  result.maxAbsolute = maximum(error);
  result.meanAbsolute = average(error);
  result.maxRelative = maximum(error.div(magnitude).masked_fill(error.eq(0), 0.0));
  result.maxUlp = maximum(error.div(ulpOf(want, expected.scalar_type())));
  return result;
}

OracleVerdict compareWithOracle(const Tensor &oracle, const Tensor &eager, const Tensor &actual) {
  OracleVerdict verdict;
  if (eager.sizes() != actual.sizes() || eager.scalar_type() != actual.scalar_type() ||
      oracle.sizes() != eager.sizes()) {
    verdict.reason =
        fmt::format("oracle {}, eager {}, actual {}", describe(oracle), describe(eager), describe(actual));
    return verdict;
  }
  Tensor truth = plain(oracle);
  Tensor error = absoluteError(truth, plain(actual)), eagerError = absoluteError(truth, plain(eager));
  verdict.maxError = maximum(error);
  verdict.maxEager = maximum(eagerError);
  verdict.meanError = average(error);
  verdict.meanEager = average(eagerError);
  Tensor allowed = ulpOf(truth, eager.scalar_type()).mul(kUlpAllowance).add(kErrorFactor * verdict.maxEager);
  if (!error.le(allowed).all().item<bool>())
    verdict.reason = fmt::format("error {:g}, allowed {} x eager's {:g} + {} ulp", verdict.maxError,
                                 kErrorFactor, verdict.maxEager, kUlpAllowance);
  else if (error.numel() >= kMeanNeeds && verdict.meanError > kMeanFactor * verdict.meanEager)
    verdict.reason = fmt::format("mean error {:g}, allowed {} x eager's {:g}", verdict.meanError, kMeanFactor,
                                 verdict.meanEager);
  verdict.pass = verdict.reason.empty();
  return verdict;
}

} // namespace graphopt::runtime
