// One step of a plan made ready: handle found, constants boxed, typed entry chosen.
#pragma once
#include "runtime/plan.h"
#include "runtime/to_ivalue.h"
#include "runtime/typed_call.h"

#include <functional>
#include <memory>
#include <vector>

namespace graphopt::runtime {

struct PreparedArgument {
  enum class Kind : uint8_t { Constant, Symbolic, Slot, LastUse, TensorList, OptionalTensorList };
  Kind kind = Kind::Constant;
  int slot = -1;
  c10::IValue constant;
  std::function<c10::IValue(const SymValues &)> make; ///< Symbolic
  std::vector<int> slots;
};

/// Which calls need the autograd layers beside those that make history.
enum class Route : uint8_t {
  Below,       ///< none
  WithHistory, ///< views, in a run some of whose tensors require grad: a view says so too, even under no_grad
  ThroughAutograd ///< composite operators, which take other ways down below autograd; returned views
};

struct PreparedCall {
  const Operator *op = nullptr;
  std::vector<PreparedArgument> arguments;
  std::vector<int> results;
  std::vector<int> release; // those that no argument moves out
  uint32_t ambient = 0;
  Route route = Route::Below;
  bool one = false;                 // one result that is no list
  std::unique_ptr<TypedCall> typed; // may be missing
};

/// `holdsTensor[slot]` is false for slots that hold a host scalar. Throws a user error when the step does not
/// fit its operator's schema. `syms` are the plan's.
PreparedCall prepareCall(const CallStep &step, const std::vector<bool> &holdsTensor,
                         const std::vector<std::string> &syms);

} // namespace graphopt::runtime
