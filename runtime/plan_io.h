// Plans as text, so that a later process can run one without compiling, and the checks that make a foreign
// text safe to run.
#pragma once
#include "runtime/plan.h"

#include <string>
#include <string_view>

namespace graphopt::runtime {

/// JSON with a format version; floats keep their bits.
std::string toJson(const Plan &plan);

/// Reads what toJson wrote. Throws a user error for anything else: broken JSON, another version, missing or
/// mistyped fields, and everything validate() refuses.
Plan planFromJson(std::string_view text);

/// Throws a user error unless every slot is in range and filled before it is used, and every index points
/// somewhere.
void validate(const Plan &plan);

} // namespace graphopt::runtime
