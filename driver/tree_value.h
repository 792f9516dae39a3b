// Between the public Tree and LibTorch's IValue.
#pragma once
#include <graphopt/tree.h>

#include <ATen/core/ivalue.h>

namespace graphopt::driver {

/// Lists of one kind become typed lists (Tensor[], int[], float[], bool[], str[]), all other lists generic
/// ones.
c10::IValue toIValue(const Tree &tree);
/// Throws a user error for what a Tree cannot hold (objects, devices, generators).
Tree toTree(const c10::IValue &value);

} // namespace graphopt::driver
