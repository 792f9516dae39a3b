// 64-bit integer arithmetic for dims: exact or a user error, and rounding down where LibTorch's sizes do.
#pragma once
#include <cstdint>

namespace graphopt::ir {

// Each throws a user error when the result leaves 64 bits; b must not be 0 in the divisions.
int64_t checkedAdd(int64_t a, int64_t b);
int64_t checkedMul(int64_t a, int64_t b);
int64_t floorDivInt(int64_t a, int64_t b); ///< rounds towards minus infinity
int64_t floorModInt(int64_t a, int64_t b); ///< a - b * floorDivInt(a, b): has the sign of b

} // namespace graphopt::ir
