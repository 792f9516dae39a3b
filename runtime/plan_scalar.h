// A literal of the text as plain data, which a plan can store.
#pragma once
#include "ir/attr.h"
#include "runtime/plan.h"

#include <string>

namespace graphopt::runtime {

/// Throws a user error for a size that is not fixed and for what has no text; `where` says which literal it
/// is.
Scalar toScalarData(const ir::Attr &attr, const std::string &where);

} // namespace graphopt::runtime
