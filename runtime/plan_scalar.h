// A literal of the text as plain data, which a plan can store.
#pragma once
#include "ir/attr.h"
#include "runtime/plan.h"

#include <string>

namespace graphopt::runtime {

/// Throws a user error for what has no text; `where` says which literal it is.
Scalar toScalarData(const ir::Attr &attr, const std::string &where);

/// The data as a literal; `syms` are the plan's. Throws a user error for a size that is no expression of
/// them.
ir::Attr toAttr(const Scalar &scalar, const std::vector<std::string> &syms);

/// Whether it depends on syms.
bool isSymbolic(const Scalar &scalar);

} // namespace graphopt::runtime
