// A few steps of SGD on one TorchScript program, in eager and through compile() with default options: the
// same seeds, the same arguments, and everything that training makes has to agree bit for bit.
#pragma once
#include "shadow_check.h"

namespace graphopt::corpus {

struct StepsOptions {
  bool autocast = false;  ///< forwards run in a region each
  bool recompute = false; ///< CompileOptions::recompute
};

struct StepsOutcome {
  /// Wrong: a difference, another error, or a loss that is not finite. Invalid: eager fails itself, has other
  /// results under the same seed, or has nothing to train.
  Outcome::Verdict verdict = Outcome::Verdict::Equal;
  std::string reason;         ///< one line; of an equal program: why segments went through autograd's nodes
  double first = 0, last = 0; ///< losses
  size_t segments = 0;        ///< of the trace graph, after all steps
  uint64_t compiledRuns = 0;  ///< of segments with a compiled backward
  uint64_t otherRuns = 0;     ///< of segments through autograd's nodes, though they were to be compiled
};

/// Compared after each step: the loss, results, gradients, parameters, buffers and arguments. Each step
/// has contents of its own, or the given ones where eager has no result for others.
StepsOutcome checkSteps(const ScriptedFactory &load, const StepsOptions &options = {});

} // namespace graphopt::corpus
