// The tensors among an operator's own arguments.
#pragma once
#include "capture/operator_facts.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

namespace graphopt::capture {

/// Calls f(impl) for the tensor, or each defined one of a list.
template <class F> void forEachTensor(const c10::IValue &value, F &&f) {
  if (value.isTensor()) {
    if (value.toTensor().defined())
      f(*value.toTensor().unsafeGetTensorImpl());
  } else if (value.isList()) {
    for (const c10::IValue &item : value.toListRef())
      forEachTensor(item, f);
  }
}

/// Calls f(impl, argument) for each defined one; the stack may hold values of others below the arguments.
template <class F> void forEachOperand(const OperatorFacts &facts, const torch::jit::Stack &stack, F &&f) {
  const c10::IValue *values = stack.data() + (stack.size() - facts.arguments.size());
  for (size_t i = 0; i < facts.arguments.size(); ++i)
    if (facts.arguments[i].role != ArgumentFacts::Role::Attr)
      forEachTensor(values[i], [&](c10::TensorImpl &impl) { f(impl, facts.arguments[i]); });
}

} // namespace graphopt::capture
