// Marks lie beside the tensors, by address; a weak reference keeps an address from being another tensor's.
#include "capture/dim_marks.h"

#include "capture/capture.h"

#include <graphopt/dynamic.h>
#include <graphopt/error.h>

#include <atomic>
#include <limits>
#include <mutex>
#include <unordered_map>

namespace graphopt {
namespace capture {
namespace {

struct Marked {
  WeakTensor tensor;
  std::vector<DimMark> marks;
};
struct Marks {
  std::mutex mutex;
  std::atomic<bool> any{false};
  std::unordered_map<const c10::TensorImpl *, Marked> byTensor;
};
Marks &marks() {
  static auto &all = *new Marks;
  return all;
}

} // namespace

bool anyMarks() { return marks().any; }

std::vector<DimMark> marksOf(const c10::TensorImpl &tensor) {
  if (!anyMarks())
    return {};
  std::lock_guard lock(marks().mutex);
  auto it = marks().byTensor.find(&tensor);
  return it == marks().byTensor.end() || it->second.tensor.expired() ? std::vector<DimMark>()
                                                                     : it->second.marks;
}

void addMark(const at::Tensor &tensor, DimMark mark) {
  std::lock_guard lock(marks().mutex);
  std::erase_if(marks().byTensor, [](const auto &entry) { return entry.second.tensor.expired(); });
  marks().any = true;
  WeakTensor weak(tensor.getIntrusivePtr());
  auto it = marks().byTensor.try_emplace(tensor.unsafeGetTensorImpl(), Marked{std::move(weak), {}}).first;
  std::erase_if(it->second.marks, [&](const DimMark &known) { return known.dim == mark.dim; });
  it->second.marks.push_back(mark);
}

/// Counted from the end where negative.
static uint32_t checkedDim(const at::Tensor &tensor, int64_t dim) {
  if (!tensor.defined())
    userError("an undefined tensor has no dims to mark");
  int64_t rank = tensor.dim();
  if (dim < -rank || dim >= rank)
    userError(fmt::format("the tensor has {} dims: there is no dim {} to mark", rank, dim));
  return static_cast<uint32_t>(dim < 0 ? dim + rank : dim);
}

} // namespace capture

void markDynamic(const at::Tensor &tensor, int64_t dim, int64_t min, int64_t max) {
  uint32_t position = capture::checkedDim(tensor, dim);
  if (min < 0 || max < min)
    userError(fmt::format("a dim's sizes cannot lie in [{}, {}]: give 0 <= min <= max", min, max));
  int64_t size = tensor.size(dim);
  if (size < min || size > max)
    userError(fmt::format("dim {} of the tensor has size {}, which is not in [{}, {}]", dim, size, min, max));
  capture::addMark(tensor, {position, true, min, max});
}

void markStatic(const at::Tensor &tensor, int64_t dim) {
  capture::addMark(tensor, {capture::checkedDim(tensor, dim), false, 0, 0});
}

} // namespace graphopt
