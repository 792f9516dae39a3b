// The Plan: the flat list of steps the runtime executes. Plain data, serialisable; knows nothing of passes or
// IR.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace graphopt::runtime {

/// A scalar or list argument as data; what it becomes on the stack follows from the operator's schema.
struct Scalar {
  enum class Kind : uint8_t { None, Bool, Int, Float, Complex, String, Word, List };
  Kind kind = Kind::None;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0, imaginary = 0;
  std::string text;
  std::vector<Scalar> items;
};

/// One argument of a call, in schema order. Slots index the plan's value table; -1 is a missing tensor.
struct PlanArgument {
  enum class Kind : uint8_t { Scalar, Tensor, TensorList };
  Kind kind = Kind::Scalar;
  runtime::Scalar scalar;
  std::vector<int> slots; // Tensor: one; TensorList: any
};

/// The thread state a step runs under.
struct Ambient {
  bool grad = false;
  bool inference = false;
  bool autocast = false;
  bool autocastCache = true;
  std::string autocastDtype; // "bf16"
  bool operator==(const Ambient &) const = default;
};

/// Switches of the process that change numbers; what is not said stays as it is.
struct Settings {
  std::optional<bool> deterministic;
  std::string matmul; // highest, high, medium; "" = not said
  bool operator==(const Settings &) const = default;
};

struct CallStep {
  std::string op; // "aten.add.Tensor"
  std::vector<PlanArgument> arguments;
  std::vector<int> results; // slot of each result tensor, lists flattened; -1: not needed
  std::vector<int> release; // slots whose last use this is
  uint32_t ambient = 0;     // index into Plan::ambients
};
/// Copies slot `source` into the tensor of slot `target` (a declared value): the commit at the end.
struct WritebackStep {
  int target = -1, source = -1;
};
using Step = std::variant<CallStep, WritebackStep>;

/// What a slot is filled from before the first step.
struct PlanInput {
  enum class Kind : uint8_t { Argument, State, Constant };
  Kind kind = Kind::Argument;
  std::string name; // of the declared value
  int slot = -1;
};

struct Plan {
  std::string name;
  int slots = 0;
  std::vector<Ambient> ambients;
  std::vector<PlanInput> inputs;
  std::vector<Step> steps;
  std::vector<int> outputs; // slots, -1: undefined
};

} // namespace graphopt::runtime
