// Collects a call's tensors in the order of the graph's declarations.
#include "capture/live_tensors.h"

#include <graphopt/error.h>

namespace graphopt::capture {
namespace {

struct ByteRange {
  int64_t begin, end;
};

ByteRange bytesOf(const at::Tensor &tensor) {
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d)
    last += (tensor.size(d) - 1) * tensor.stride(d);
  auto item = static_cast<int64_t>(tensor.itemsize());
  return {tensor.storage_offset() * item, (tensor.storage_offset() + last + 1) * item};
}

bool hasMemory(const at::Tensor &tensor) {
  return tensor.defined() && tensor.layout() == c10::kStrided && !tensor.is_nested() &&
         tensor.has_storage() && tensor.numel() > 0;
}

bool isAmong(const std::vector<LiveTensors::Entry> &entries, const ir::Value *value) {
  return std::any_of(entries.begin(), entries.end(), [&](const auto &entry) { return entry.value == value; });
}

} // namespace

bool overlap(const at::Tensor &a, const at::Tensor &b) {
  if (!hasMemory(a) || !hasMemory(b) || !a.is_alias_of(b))
    return false;
  ByteRange first = bytesOf(a), second = bytesOf(b);
  return first.begin < second.end && second.begin < first.end;
}

LiveTensors::LiveTensors(const Capture &capture, const std::vector<at::Tensor> &leaves) {
  GO_ASSERT(leaves.size() == capture.inputs.size(), "one tensor for each leaf of the arguments");
  all_.reserve(leaves.size() + capture.bound.size());
  for (size_t i = 0; i < leaves.size(); ++i)
    if (!isAmong(all_, capture.inputs[i]))
      all_.push_back({capture.inputs[i], leaves[i]});
  for (const Bound &bound : capture.bound)
    if (bound.value->kind != ir::Value::Kind::HostVal && bound.value->kind != ir::Value::Kind::Const)
      all_.push_back({bound.value, bound.get()});
}

const at::Tensor &LiveTensors::of(const ir::Value *value) {
  for (size_t tried = 0; tried < all_.size(); ++tried) {
    const Entry &entry = all_[next_];
    if (entry.value == value)
      return entry.tensor;
    next_ = (next_ + 1) % all_.size();
  }
  GO_ASSERT(false, "a guard about a value without a tensor: " + value->name);
}

} // namespace graphopt::capture
