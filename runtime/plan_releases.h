// When the slots of a plan are released.
#pragma once
#include "runtime/plan.h"

namespace graphopt::runtime {

/// Gives each step the slots whose last use it is, and drops results that nothing uses. Inputs and constants
/// are held by others and are not released. The plan's steps have none yet.
void addReleases(Plan &plan);

} // namespace graphopt::runtime
