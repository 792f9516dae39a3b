// Sizes of convolutions and pools as expressions: no sum or product of their operands' sizes.
#pragma once
#include "capture/segment.h"
#include "ir/dim.h"

#include <vector>

namespace graphopt::capture {

/// What the last dims of the results of a row may be, for the sizes of its first operand: a list of
/// expressions for each dim, from the first spatial one on. Empty for operators that have no windows.
std::vector<std::vector<ir::Dim>> windowSizes(const Segment &segment, const RowInfo &info,
                                              const std::vector<ir::Dim> &input);

} // namespace graphopt::capture
