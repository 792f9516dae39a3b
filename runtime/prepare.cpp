// What a step's data becomes on the stack follows from the operator's schema; misfits are said here, before
// anything runs.
#include "runtime/prepare.h"

#include "graphopt/error.h"
#include "runtime/call.h"
#include "runtime/plan_scalar.h"
#include "runtime/to_ivalue.h"

#include <algorithm>
#include <fmt/format.h>

namespace graphopt::runtime {
namespace {
using c10::IValue;

/// Turns the data of one step into what the stack takes.
class Preparer {
public:
  Preparer(const CallStep &step, const std::vector<bool> &holdsTensor, const std::vector<std::string> &syms)
      : step_(step), op_(requireOperator(step.op)), holdsTensor_(holdsTensor), syms_(syms) {}

  PreparedCall prepare() {
    size_t wanted = op_.info.args.size();
    if (step_.arguments.size() != wanted)
      userError(fmt::format("this plan cannot run: '{}' op has {} arguments, expected {}; compile again",
                            step_.op, step_.arguments.size(), wanted));
    PreparedCall call;
    call.op = &op_;
    for (size_t i = 0; i < wanted; ++i)
      call.arguments.push_back(argument(i));
    call.results = step_.results;
    call.release = step_.release;
    call.ambient = step_.ambient;
    call.route = route();
    call.one = op_.info.returns.size() == 1 && !op_.info.returns[0].isTensorList && step_.results.size() == 1;
    call.typed = typed(call);
    if (!call.typed) // which only looks at its slots
      moveLastUses(call);
    return call;
  }

private:
  PreparedArgument argument(size_t i) const {
    const PlanArgument &given = step_.arguments[i];
    const ir::ArgInfo &info = op_.info.args[i];
    switch (given.kind) {
    case PlanArgument::Kind::Scalar:
      return literal(given, info, i);
    case PlanArgument::Kind::Number:
      return number(given, info);
    case PlanArgument::Kind::Tensor:
      return tensor(given, info);
    case PlanArgument::Kind::TensorList:
      return list(given, info);
    }
    return {};
  }

  Route route() const {
    if (step_.returned || op_.info.composite)
      return Route::ThroughAutograd;
    for (const ir::ReturnInfo &result : op_.info.returns)
      if (!result.aliasSet.empty())
        return Route::WithHistory;
    return Route::Below;
  }

  std::unique_ptr<TypedCall> typed(const PreparedCall &call) const {
    std::vector<TypedArgument> arguments;
    for (const PreparedArgument &argument : call.arguments) {
      bool isTensor = argument.kind == PreparedArgument::Kind::Slot && holdsTensor_.at(argument.slot);
      if (!isTensor && argument.kind != PreparedArgument::Kind::Constant)
        return nullptr;
      arguments.push_back({argument.slot, argument.constant});
    }
    return call.one ? makeTypedCall(op_, arguments) : nullptr;
  }

  PreparedArgument constant(IValue value) const {
    PreparedArgument argument;
    argument.constant = std::move(value);
    return argument;
  }

  static PreparedArgument symbolic(std::function<IValue(const SymValues &)> make) {
    PreparedArgument argument;
    argument.kind = PreparedArgument::Kind::Symbolic;
    argument.make = std::move(make);
    return argument;
  }

  PreparedArgument literal(const PlanArgument &given, const ir::ArgInfo &info, size_t i) const {
    bool missing = info.role != ir::ArgInfo::Role::Attr && given.scalar.kind == Scalar::Kind::None;
    if (!missing && isSymbolic(given.scalar))
      return symbolic([attr = toAttr(given.scalar, syms_), &op = op_, i](const SymValues &syms) {
        return toIValue(attr, op.schema().arguments()[i], op.info.name, syms);
      });
    if (!missing)
      return constant(toIValue(toAttr(given.scalar, syms_), op_.schema().arguments()[i], step_.op));
    if (info.optional)
      return constant(IValue());
    if (info.role == ir::ArgInfo::Role::Tensor)
      return constant(at::Tensor());
    return constant(c10::List<at::Tensor>());
  }

  PreparedArgument number(const PlanArgument &given, const ir::ArgInfo &info) const {
    const auto dtype = given.dtype.empty() ? std::nullopt : ir::parseDType(given.dtype);
    const ir::Attr attr = toAttr(given.scalar, syms_);
    if (isSymbolic(given.scalar) && attr.isInt() && info.role == ir::ArgInfo::Role::Tensor)
      return symbolic([attr, dtype](const SymValues &syms) {
        return IValue(numberTensor(toScalar(attr, syms).value(), dtype));
      });
    auto scalar = toScalar(attr);
    if (!scalar || info.role != ir::ArgInfo::Role::Tensor)
      misfit(info);
    return constant(numberTensor(*scalar, dtype));
  }

  PreparedArgument tensor(const PlanArgument &given, const ir::ArgInfo &info) const {
    if (info.role != ir::ArgInfo::Role::Tensor)
      misfit(info);
    int slot = given.slots.at(0);
    if (slot == -1)
      return constant(info.optional ? IValue() : IValue(at::Tensor()));
    PreparedArgument argument;
    argument.kind = PreparedArgument::Kind::Slot;
    argument.slot = slot;
    return argument;
  }

  PreparedArgument list(const PlanArgument &given, const ir::ArgInfo &info) const {
    if (info.role != ir::ArgInfo::Role::TensorList)
      misfit(info);
    PreparedArgument argument;
    bool optional = info.type.starts_with("Tensor?[");
    argument.kind =
        optional ? PreparedArgument::Kind::OptionalTensorList : PreparedArgument::Kind::TensorList;
    argument.slots = given.slots;
    return argument;
  }

  [[noreturn]] void misfit(const ir::ArgInfo &info) const {
    userError(fmt::format(
        "this plan cannot run: '{}' op argument '{}' is not what its schema wants ({}); compile again",
        step_.op, info.name, info.type));
  }

  /// A slot whose last use is a plain argument of this step is moved onto the stack, not copied and dropped
  /// afterwards.
  static void moveLastUses(PreparedCall &call) {
    std::erase_if(call.release, [&](int slot) {
      PreparedArgument *last = lastPlainUse(call, slot);
      if (last)
        last->kind = PreparedArgument::Kind::LastUse;
      return last != nullptr;
    });
  }

  /// nullptr when a list after it, or only a list, uses the slot.
  static PreparedArgument *lastPlainUse(PreparedCall &call, int slot) {
    PreparedArgument *last = nullptr;
    for (PreparedArgument &argument : call.arguments) {
      if (argument.slot == slot)
        last = &argument;
      else if (std::find(argument.slots.begin(), argument.slots.end(), slot) != argument.slots.end())
        last = nullptr;
    }
    return last;
  }

  const CallStep &step_;
  const Operator &op_;
  const std::vector<bool> &holdsTensor_;
  const std::vector<std::string> &syms_;
};

} // namespace

PreparedCall prepareCall(const CallStep &step, const std::vector<bool> &holdsTensor,
                         const std::vector<std::string> &syms) {
  return Preparer(step, holdsTensor, syms).prepare();
}

} // namespace graphopt::runtime
