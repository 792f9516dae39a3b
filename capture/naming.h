// Names of results, from the program's own words.
#pragma once
#include "capture/trace.h"

namespace graphopt::capture {

/// The base name for the results of each call: the last component of its module's path if it is the module's
/// last operator, else the operator's own name. Collisions are the graph's to solve.
std::vector<std::string> resultNames(const Trace &trace);

} // namespace graphopt::capture
