// One TorchScript program in shadow mode beside eager: six calls with two kinds of contents, each compared
// with the same call of an eager instance bit for bit, in results, arguments, state, errors and, in train
// mode, gradients.
#pragma once
#include "pipeline_check.h"

#include <torch/csrc/jit/api/module.h>

namespace graphopt::corpus {

/// A module with the arguments of a call, loaded anew.
struct Scripted {
  torch::jit::Module module;
  std::vector<c10::IValue> args;
};
using ScriptedFactory = std::function<Scripted()>;

struct ShadowOutcome {
  /// Wrong: a difference, another error, nothing that was put off, or, in a program without branches and
  /// borders, anything recorded after the second call. Invalid: eager fails itself, or has other results
  /// under the same seed.
  Outcome::Verdict verdict = Outcome::Verdict::Equal;
  std::string reason;           ///< one line; of an equal program: what ran eagerly
  uint64_t operators = 0;       ///< of the last call
  uint64_t atOnce = 0;          ///< of these, not put off
  size_t segments = 0;          ///< of the trace graph, after all calls
  uint64_t recordings = 0;      ///< of all calls
  uint64_t lateDivergences = 0; ///< after the second call
  uint64_t borders = 0;         ///< of the last call
};

ShadowOutcome checkShadow(const ScriptedFactory &load, bool isTraining);

} // namespace graphopt::corpus
