// One program through the whole main job, each step on a fresh copy: eager, capture, text round trip, raw
// interpretation, functional form and cleanup, interpretation, plan. Everything is compared with eager bit
// for bit.
#pragma once
#include "capture/capture.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace graphopt::corpus {

/// A program with its arguments, loaded anew: runs may write to arguments and state.
struct Instance {
  std::unique_ptr<capture::Program> program;
  std::vector<c10::IValue> args;
};
using Factory = std::function<Instance()>;

/// What is made of the floating arguments before each run.
enum class Arguments {
  Given,
  Parameters,        ///< they require gradients, with grad mode off, as parameters do in inference
  ReversedParameters ///< and their dims lie in memory in reverse order
};

struct CheckOptions {
  int64_t seed = 0;
  bool shapeOnly = false; ///< contents are uninitialised memory: compare sizes, strides and dtype
  /// With parameters only the way to the plan is checked, and that the plan, which leaves out autograd's
  /// layers where it may, takes the same operators as the interpreter, which never does.
  Arguments arguments = Arguments::Given;
  std::string pipeline = "functionalize,cleanup";
};

struct Outcome {
  enum class Verdict {
    Equal,
    Refused,
    Wrong,
    Invalid ///< eager has no result for these arguments in another layout
  };
  Verdict verdict = Verdict::Equal;
  std::string step;   // where it was refused or went wrong
  std::string reason; // one line
  size_t captured = 0, cleaned = 0, guards = 0, borders = 0, followed = 0;
  double recordMs = 0, eagerMs = 0;
};

/// equal, refused, WRONG, invalid
const char *toString(Outcome::Verdict verdict);

/// Refused: graphopt said with a user error that it cannot (the call would run eagerly). Wrong: any
/// difference and any other exception.
Outcome check(const Factory &make, const CheckOptions &options);

/// Tensors for the graph's declarations: the instance's own arguments and state, the capture's copies for the
/// rest.
std::unordered_map<std::string, at::Tensor> environmentOf(const capture::Capture &capture,
                                                          const Instance &instance);

/// The tensors the host would get: graph results put in the places of the call's result, then its tensor
/// leaves.
std::vector<at::Tensor> resultLeaves(const capture::Capture &capture, const std::vector<at::Tensor> &outputs);

/// Runs `work` in a forked child and returns the line it produced, or "CRASH signal N" / "TIMEOUT".
std::string inChild(const std::function<std::string()> &work, int timeoutSeconds);

} // namespace graphopt::corpus
