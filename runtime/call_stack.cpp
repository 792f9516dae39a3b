// The stack of one call: operands looked up, literals turned into what the schema wants.
#include "runtime/call.h"

#include "graphopt/error.h"

#include <fmt/format.h>

namespace graphopt::runtime {
namespace {
using c10::IValue;
using ir::Operand;

ir::Attr promotedWord(const ir::Attr &literal) {
  if (literal.kind() != ir::Attr::Kind::Word)
    return literal;
  auto dtype = ir::parseDType(literal.text());
  return dtype ? ir::Attr::word(std::string(ir::dtypeName(promotedDType(*dtype)))) : literal;
}

class StackBuilder {
public:
  StackBuilder(const Call &call, const ArgumentSource &source) : call_(call), source_(source) {}

  torch::jit::Stack build() const {
    torch::jit::Stack stack;
    for (size_t i = 0; i < call_.arguments.size(); ++i)
      stack.push_back(value(i));
    return stack;
  }

private:
  IValue value(size_t i) const {
    const CallArgument &argument = call_.arguments[i];
    if (argument.kind == CallArgument::Kind::Operand)
      return operandValue(argument, call_.op->info.args[i]);
    const c10::Argument &schema = call_.op->schema().arguments()[i];
    bool promote = source_.fp64 && isDTypeArgument(schema);
    return toIValue(promote ? promotedWord(argument.literal) : argument.literal, schema, name(),
                    source_.syms);
  }

  IValue operandValue(const CallArgument &argument, const ir::ArgInfo &info) const {
    if (info.role == ir::ArgInfo::Role::Tensor)
      return tensorOrNone(argument.operand, argument, info.optional);
    if (argument.operand.kind == Operand::Kind::None && info.optional)
      return IValue();
    if (info.type.starts_with("Tensor?["))
      return optionalList(argument);
    c10::List<at::Tensor> list;
    for (const Operand &item : argument.operand.items)
      list.push_back(tensorOrNone(item, argument, false).toTensor());
    return list;
  }

  IValue optionalList(const CallArgument &argument) const {
    c10::List<std::optional<at::Tensor>> list;
    for (const Operand &item : argument.operand.items)
      list.push_back(tensorOrNone(item, argument, true).toOptional<at::Tensor>());
    return list;
  }

  IValue tensorOrNone(const Operand &operand, const CallArgument &argument, bool optional) const {
    switch (operand.kind) {
    case Operand::Kind::None:
      return optional ? IValue() : IValue(at::Tensor());
    case Operand::Kind::Value:
      return asTensor(source_.lookUp(*operand.value));
    case Operand::Kind::Literal:
      return number(operand.literal, argument);
    case Operand::Kind::List:
      break;
    }
    userError(fmt::format("'{}' op has a list within a list of operands", name()));
  }

  at::Tensor number(const ir::Attr &literal, const CallArgument &argument) const {
    auto scalar = toScalar(literal, source_.syms);
    if (!scalar)
      userError(fmt::format("'{}' op operand {} is no number", name(), toString(literal)));
    bool promote = source_.fp64 && argument.dtype;
    return numberTensor(*scalar, promote ? promotedDType(*argument.dtype) : argument.dtype);
  }

  const std::string &name() const { return call_.op->info.name; }

  const Call &call_;
  const ArgumentSource &source_;
};

} // namespace

torch::jit::Stack stackFor(const Call &call, const ArgumentSource &source) {
  return StackBuilder(call, source).build();
}

} // namespace graphopt::runtime
