// Names of arguments and of what is inside them: "x", "state.0", "batch.mask".
#pragma once
#include "capture/capture.h"

namespace graphopt::capture {

/// A name for each argument: the program's own where it gives one, else x, or x0, x1 ...
std::vector<std::string> argumentNames(size_t count, std::vector<std::string> own);

/// The names of the tensor leaves, in their order.
std::vector<std::string> leafNames(const std::vector<Structure> &arguments,
                                   const std::vector<std::string> &names);

/// A plain value among the arguments.
struct NamedConstant {
  std::string name;
  const c10::IValue *value;
};
/// All of them, in order; None and undefined tensors included.
std::vector<NamedConstant> constantsOf(const std::vector<Structure> &arguments,
                                       const std::vector<std::string> &names);

} // namespace graphopt::capture
