// One program with images in the recorded order and with their channels last, forward and backward, both
// interpreted at the lowered stage, and with its channels last at the core stage too.
#pragma once
#include "pipeline_check.h"

namespace graphopt::corpus {

struct LayoutOptions {
  int64_t seed = 0;
  bool autocast = false; ///< under autocast of the CPU, in bf16: numbers are held against each other alone
  /// Numbers in f64, where order decides nothing: this share of the largest of their tensor.
  double tolerance64 = 1e-9;
};

struct LayoutOutcome {
  /// Wrong: results or gradients lie otherwise, differ in f64, or a second run of the pass changes something.
  Outcome::Verdict verdict = Outcome::Verdict::Equal;
  std::string step, reason;
  /// By the error rule against f64 (runtime/compare.h): numbers that break it, of all that were compared, and
  /// the first. Rounding decides which way comparisons go, so some do by chance.
  size_t beyond = 0, compared = 0;
  std::string firstBeyond;
  double ratio = 1; ///< geometric mean over all values of the largest error by that of the recorded order
  /// So many values have the bits that the program gives when its arguments and parameters lie with their
  /// channels last, as far as that can be run.
  size_t asChannelsLast = 0;
  int64_t convolutions = 0, left = 0, conversions = 0, ofWeights = 0;
};

/// All floating arguments and parameters get gradients. A program that the pass leaves as it is counts as
/// equal.
LayoutOutcome checkLayout(const Factory &make, const LayoutOptions &options);

} // namespace graphopt::corpus
