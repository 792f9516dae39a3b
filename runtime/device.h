// Devices other than the CPU: their LibTorch library is loaded when one is asked for, never linked.
#pragma once
#include "ir/dtype.h"

#include <c10/core/Device.h>

namespace graphopt::runtime {

/// The device, ready to use. For `cuda` the first call loads libtorch_cuda from beside libtorch_cpu. Throws a
/// user error that says what is missing: the library, a GPU, or that index; and for device types graphopt
/// does not know.
c10::Device requireDevice(const ir::Device &device);

} // namespace graphopt::runtime
