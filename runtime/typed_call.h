// Calls of the commonest operator signatures without the stack.
//
// A boxed call converts every argument at each call: a list of sizes is copied twice, a Scalar rebuilt. Where
// the signature is one of a short list, arguments are converted once and the dispatcher is entered as C++
// code enters it.
#pragma once
#include "runtime/operator.h"

#include <ATen/core/ivalue.h>
#include <memory>
#include <vector>

namespace graphopt::runtime {

/// One argument of a prepared call: a value that never changes, or the number of a slot.
struct TypedArgument {
  int slot = -1; // -1: the constant
  c10::IValue constant;
};

class TypedCall {
public:
  virtual ~TypedCall() = default;
  /// Every slot that an argument names holds a tensor.
  virtual at::Tensor run(c10::IValue *slots) const = 0;
};

/// nullptr when the operator's signature is none of the list. Arguments are in schema order and fit the
/// schema.
std::unique_ptr<TypedCall> makeTypedCall(const Operator &op, const std::vector<TypedArgument> &arguments);

} // namespace graphopt::runtime
