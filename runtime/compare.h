// How far two tensors are apart: what `verify` prints, and the rules that decide pass or fail.
#pragma once
#include <ATen/core/Tensor.h>
#include <string>

namespace graphopt::runtime {

/// The difference of two tensors of equal metadata. NaN against NaN is equal, infinities of one sign are
/// equal; NaN or an infinity against anything else is an infinite error.
struct Difference {
  bool sameMeta = false; ///< dtype, sizes (not strides, not device)
  bool bitEqual = false; ///< the same bytes (logical values: conj and neg resolved)
  double maxAbsolute = 0;
  double maxRelative = 0; ///< of |expected|, 0 where both are 0
  double meanAbsolute = 0;
  double maxUlp =
      0; ///< in units in the last place of the output's dtype at the expected value; integers: absolute
  int64_t mismatches = 0; ///< elements that differ
  std::string reason;     ///< when the metadata differ: how
};

/// Compares values, on the CPU, in f64. Complex numbers count as pairs.
Difference compare(const at::Tensor &expected, const at::Tensor &actual);

/// The accuracy rule against an f64 oracle: each element's error is at most 1.25 times eager's largest plus 2
/// ulp, and the mean error (of 64 elements or more) at most 1.05 times eager's.
struct OracleVerdict {
  bool pass = false;
  double maxError = 0, maxEager = 0;   ///< absolute, against the oracle
  double meanError = 0, meanEager = 0; ///< absolute
  std::string reason;                  ///< empty when it passes
};
OracleVerdict compareWithOracle(const at::Tensor &oracle, const at::Tensor &eager, const at::Tensor &actual);

/// One unit in the last place of `dtype` at each value, in f64: the distance to the next representable
/// number, at least the least subnormal. For integers and bools: ones.
at::Tensor ulpOf(const at::Tensor &values, at::ScalarType dtype);

} // namespace graphopt::runtime
