// What the user said of the dims of tensors; see graphopt/dynamic.h.
#pragma once
#include "capture/segment.h"

#include <algorithm>

namespace graphopt::capture {

/// The mark of a dim; null: it has none.
inline const DimMark *markOf(const std::vector<DimMark> &marks, size_t dim) {
  auto it = std::ranges::find(marks, dim, &DimMark::dim);
  return it == marks.end() ? nullptr : &*it;
}
/// Sizes by which operators simplify: dynamic only where a mark says so.
inline bool isSpecialSize(int64_t size) { return size == 0 || size == 1; }

/// Marks of a tensor, the last one of each dim. Cheap while nothing is marked. Safe from many threads.
std::vector<DimMark> marksOf(const c10::TensorImpl &tensor);
/// Adds a mark, for the life of the tensor; one of the same dim is replaced.
void addMark(const at::Tensor &tensor, DimMark mark);
/// Whether any tensor was ever marked.
bool anyMarks();

} // namespace graphopt::capture
