// One operator call of a graph matched with its dispatcher schema: what the interpreter and the plan builder
// share.
#pragma once
#include "ir/graph.h"
#include "runtime/operator.h"
#include "runtime/to_ivalue.h"

#include <functional>
#include <optional>
#include <vector>

namespace graphopt::runtime {

/// One schema argument of a call.
struct CallArgument {
  enum class Kind { Literal, Operand };
  Kind kind = Kind::Literal;
  ir::Attr literal;    // Literal: as given, or the schema's default
  ir::Operand operand; // Operand: a value, none, a list, or a literal that stands for a 0-dim tensor
  /// Of a literal operand: the tensor's dtype. Nothing: a wrapped number, which promotes as a host scalar
  /// does.
  std::optional<ir::DType> dtype;
};

struct Call {
  const Operator *op = nullptr;
  std::vector<CallArgument> arguments; // in schema order
  bool copyResult = false;             // a prim whose reference may return a view: prims never alias
};

/// The dispatcher call that an op of kind Call stands for; for a prim its reference of prims.def. Throws a
/// user error for an unknown operator, a missing or unknown argument, and operands that the schema has no
/// place for.
Call matchCall(const ir::Op &op);

/// Where a call's arguments come from.
struct ArgumentSource {
  std::function<c10::IValue(const ir::Value &)> lookUp;
  const SymValues &syms;
  bool fp64 = false; ///< dtype words and the dtypes of literal operands are promoted to f64 (c128)
};
/// The dispatcher's stack for a call. Throws a user error for a literal that does not fit its argument.
torch::jit::Stack stackFor(const Call &call, const ArgumentSource &source);

/// The 0-dim tensor a literal operand stands for; see CallArgument::dtype.
at::Tensor numberTensor(const c10::Scalar &scalar, std::optional<ir::DType> dtype);

/// A value on the stack as a tensor: host scalars (sizes, say) become 0-dim tensors, none an undefined one.
at::Tensor asTensor(const c10::IValue &value);

/// f64 for the other floating dtypes, c128 for the other complex ones.
ir::DType promotedDType(ir::DType dtype);

/// The results of a call, taken off the stack, lists as their elements: those that the op's text names, in
/// order. An argument written in place and returned, and an undefined tensor, may go unnamed. Throws a user
/// error when the numbers differ.
std::vector<c10::IValue> takeResults(const Operator &op, torch::jit::Stack &stack, size_t named);

} // namespace graphopt::runtime
