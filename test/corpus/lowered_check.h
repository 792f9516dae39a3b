// One program at the lowered or the core stage: forward and backward as one graph, interpreted, against eager
// with its autograd.
#pragma once
#include "pipeline_check.h"

namespace graphopt::corpus {

struct LoweredOptions {
  int64_t seed = 0;
  bool shapeOnly = false;         ///< contents are uninitialised memory
  bool gradients = true;          ///< else inference, under no_grad
  std::vector<int64_t> arguments; ///< the tensor arguments that get gradients
  bool allArguments = false;      ///< every floating argument does
  bool autocast = false;          ///< under autocast of the CPU, in bf16
  bool kernels = false;           ///< probes run kernels, and must show what they show without
  /// More than 0: the core stage. Numbers may be off by this share of the largest of their tensor.
  double coreTolerance = 0;
};

struct LoweredOutcome {
  Outcome::Verdict verdict = Outcome::Verdict::Equal;
  std::string step, reason;
  /// Of an equal program at the core stage. In f64 alone: numbers are further apart than the tolerance, but
  /// not in f64. Beyond: some break the error rule against f64 (runtime/compare.h), the reason says which.
  bool inF64Alone = false, isBeyond = false;
  size_t captured = 0, forward = 0, all = 0; ///< operators
  size_t gradients = 0;                      ///< compared
  size_t probes = 0, withKernels = 0, opaque = 0;
  std::vector<std::string>
      kernels; ///< operators that kernel-free probes ran for real: no shape function, no rule
  double lowerMs = 0, eagerMs = 0;
};

/// Results, gradients of parameters and arguments, arguments and state afterwards: all bit for bit, at the
/// core stage within its tolerance and equal in dtype, sizes and strides.
LoweredOutcome checkLowered(const Factory &make, const LoweredOptions &options);

} // namespace graphopt::corpus
