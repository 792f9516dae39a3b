// The Plan: the flat list of steps the runtime executes. Plain data, serialisable (plan_io.h); knows nothing
// of passes or IR.
//
// Values live in numbered slots. Inputs and constants fill slots before the first step; a step fills the
// slots of its results and empties those it is the last to use. Steps run in order; commits come after all
// computation, and the views that are returned are made last, on the tensors the caller owns.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace graphopt::runtime {

/// A scalar or list argument as data; what it becomes on the stack follows from the operator's schema. A Dim
/// is an expression over the plan's syms, as text.
struct Scalar {
  enum class Kind : uint8_t { None, Bool, Int, Float, Complex, String, Word, List, Dim };
  Kind kind = Kind::None;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0, imaginary = 0;
  std::string text;
  std::vector<Scalar> items;
};
/// Floats by their bits.
bool operator==(const Scalar &a, const Scalar &b);

/// One argument of a call, in schema order.
struct PlanArgument {
  enum class Kind : uint8_t {
    Scalar,    ///< `scalar`, as the schema wants it
    Number,    ///< `scalar` as a 0-dim tensor of `dtype`; a wrapped number when that is empty
    Tensor,    ///< one slot
    TensorList ///< any number of slots
  };
  Kind kind = Kind::Scalar;
  runtime::Scalar scalar;
  std::string dtype;
  std::vector<int> slots; // -1: a missing tensor
  bool operator==(const PlanArgument &) const = default;
};

/// The thread state a step runs under.
struct Ambient {
  bool grad = false;
  bool inference = false;
  bool autocast = false;
  bool autocastCache = true;
  std::string autocastDtype; // "bf16"
  bool below = false;        ///< below autograd, whatever the tensors: an operator of a lowered graph
  bool operator==(const Ambient &) const = default;
};

/// Switches of the process that change numbers, as words; "" is not said and stays as it is.
struct Settings {
  std::string deterministic; // off, on, warn
  std::string matmul;        // highest, high, medium
  bool operator==(const Settings &) const = default;
};

struct CallStep {
  std::string op; // "aten.add.Tensor"
  std::vector<PlanArgument> arguments;
  std::vector<int> results; // slots of the results the graph names, lists flattened; -1: not used
  std::vector<int> release; // slots whose last use this is
  uint32_t ambient = 0;     // index into Plan::ambients
  bool returned = false;    // makes a view that is returned: autograd has to know it
  bool operator==(const CallStep &) const = default;
};
/// Copies slot `source` into the tensor of slot `target` (a declared value): a commit.
struct WritebackStep {
  int target = -1, source = -1;
  std::vector<int> release;
  bool operator==(const WritebackStep &) const = default;
};
/// Fills slots with the tensors of others, as leaves that require gradients: a vjp begins.
struct LeavesStep {
  std::vector<int> sources, results;
  std::vector<int> release;
  bool operator==(const LeavesStep &) const = default;
};
/// The gradients of `outputs` for `cotangents`, one each, with respect to leaves: a vjp ends.
struct GradientsStep {
  std::vector<int> outputs, cotangents, leaves, results;
  /// One a result. A list: the strides that the next steps were made for; a word: they were made for none
  /// coming; none: as it comes.
  std::vector<Scalar> strides;
  int64_t number = 0; // of the operator, for whoever watches (execute.h)
  std::vector<int> release;
  bool operator==(const GradientsStep &) const = default;
};
/// From one that begins to one that ends, draws leave the generators of `devices` as they were.
struct RngStep {
  std::vector<std::string> devices; // none: ends
  bool waits = false;               // for those of other threads: all that runs within are LibTorch's draws
  bool operator==(const RngStep &) const = default;
};
using Step = std::variant<CallStep, WritebackStep, LeavesStep, GradientsStep, RngStep>;

/// A slot that the caller fills at each run.
struct PlanInput {
  enum class Kind : uint8_t { Argument, State, Constant };
  Kind kind = Kind::Argument;
  std::string name; // of the declared value
  int slot = -1;
  bool operator==(const PlanInput &) const = default;
};

/// A slot whose tensor the plan brings: made once, when the plan is prepared.
struct PlanConstant {
  int slot = -1;
  std::string dtype; // "i64"
  std::vector<int64_t> sizes;
  std::optional<std::vector<int64_t>> strides; // nothing: contiguous
  std::string device = "cpu";
  bool wrapped = false, conj = false, neg = false;
  Scalar content; // nested lists of numbers
  bool operator==(const PlanConstant &) const = default;
};

struct Plan {
  std::string name;
  std::string device = "cpu"; // whose autocast the ambient states mean
  Settings settings;
  std::vector<std::string> syms; // numbers that each run brings
  int slots = 0;
  std::vector<Ambient> ambients;
  std::vector<PlanInput> inputs;
  std::vector<PlanConstant> constants;
  std::vector<Step> steps;
  std::vector<int> outputs; // slots, -1: undefined
  bool operator==(const Plan &) const = default;
};

} // namespace graphopt::runtime
