// What the user said of the dims of tensors; see graphopt/dynamic.h.
#pragma once
#include "capture/segment.h"

namespace graphopt::capture {

/// Marks of a tensor, the last one of each dim. Cheap while nothing is marked. Safe from many threads.
std::vector<DimMark> marksOf(const c10::TensorImpl &tensor);
/// Adds a mark, for the life of the tensor; one of the same dim is replaced.
void addMark(const at::Tensor &tensor, DimMark mark);
/// Whether any tensor was ever marked.
bool anyMarks();

} // namespace graphopt::capture
