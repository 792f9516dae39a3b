// Dispatcher operators by their IR names: handle and description together, found once.
#pragma once
#include "ir/op_catalog.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <string_view>

namespace graphopt::runtime {

struct Operator {
  c10::OperatorHandle handle;
  ir::OpInfo info;
  const c10::FunctionSchema &schema() const { return handle.schema(); }
};

/// nullptr when the dispatcher has no such operator now (a library loaded later may bring it). Thread-safe;
/// the pointer stays valid.
const Operator *findOperator(std::string_view irName);

/// The same, or a user error that names the operator.
const Operator &requireOperator(std::string_view irName);

} // namespace graphopt::runtime
