// Memory is copied byte by byte and whole, since two views of it may lie anywhere; tensors are made over it
// without the dispatcher.
#include "driver/live_copies.h"

#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>
#include <graphopt/error.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <unordered_map>

namespace graphopt::driver {
namespace {

/// Stands for the history that a copy does not have.
struct NoHistory final : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list &&) override { return {}; }
};

at::Tensor bytesOf(const c10::Storage &storage) {
  const c10::InferenceMode plain(false);
  const at::NoGradGuard noGrad;
  const auto size = static_cast<int64_t>(storage.nbytes());
  return at::empty({0}, at::TensorOptions().dtype(at::kByte).device(storage.device()))
      .set_(storage, 0, {size}, {1});
}

/// A tensor over `storage` that looks like `original` to operators.
at::Tensor twin(const at::Tensor &original, const c10::Storage &storage) {
  const c10::InferenceMode mode(original.is_inference());
  const c10::TensorImpl &impl = *original.unsafeGetTensorImpl();
  at::Tensor copy =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), impl.key_set(), impl.dtype());
  c10::TensorImpl &made = *copy.unsafeGetTensorImpl();
  made.set_sizes_and_strides(impl.sizes(), impl.strides());
  made.set_storage_offset(impl.storage_offset());
  if (impl.is_wrapped_number())
    made.set_wrapped_number(true);
  if (!original.requires_grad())
    return copy;
  if (original.is_leaf())
    copy.set_requires_grad(true);
  else
    torch::autograd::set_history(copy, std::make_shared<NoHistory>());
  return copy;
}

void requirePlain(const at::Tensor &tensor) {
  if (tensor.layout() != c10::kStrided || tensor.is_quantized() || tensor.is_nested() || tensor.is_meta())
    userError("a tensor is more than memory with sizes and strides, and cannot be copied for a comparison");
}

/// The addresses of the memories, in order of appearance.
std::unordered_map<const c10::StorageImpl *, size_t> memoriesOf(const std::vector<at::Tensor> &tensors) {
  std::unordered_map<const c10::StorageImpl *, size_t> memories;
  for (const at::Tensor &tensor : tensors)
    if (tensor.defined())
      memories.try_emplace(tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(),
                           memories.size());
  return memories;
}

} // namespace

size_t LiveCopies::bytesOf(const std::vector<at::Tensor> &originals) {
  size_t bytes = 0;
  for (const auto &[storage, index] : memoriesOf(originals))
    bytes += storage ? storage->nbytes() : 0;
  return bytes;
}

LiveCopies::LiveCopies(const std::vector<at::Tensor> &originals) : originals_(originals) {
  const auto indices = memoriesOf(originals);
  memories_.reserve(indices.size());
  memoryOf_.assign(originals.size(), indices.size());
  for (size_t i = 0; i < originals.size(); ++i) {
    if (!originals[i].defined())
      continue;
    requirePlain(originals[i]);
    const c10::Storage &storage = originals[i].unsafeGetTensorImpl()->unsafe_storage();
    memoryOf_[i] = indices.at(storage.unsafeGetStorageImpl());
    if (memoryOf_[i] == memories_.size())
      memories_.push_back({storage, driver::bytesOf(storage).clone().storage(), i, {}});
  }
  makeTensors();
}

void LiveCopies::makeTensors() {
  copies_.assign(originals_.size(), at::Tensor());
  for (size_t i = 0; i < originals_.size(); ++i)
    if (originals_[i].defined())
      copies_[i] = twin(originals_[i], memories_[memoryOf_[i]].copy);
}

bool LiveCopies::agree(size_t memory) const {
  const Memory &item = memories_[memory];
  return item.original.nbytes() == item.copy.nbytes() &&
         at::equal(driver::bytesOf(item.original), driver::bytesOf(item.copy));
}

void LiveCopies::keep(size_t memory) {
  memories_[memory].kept = driver::bytesOf(memories_[memory].copy).clone();
}

bool LiveCopies::changed(size_t memory) const {
  return !at::equal(memories_[memory].kept, driver::bytesOf(memories_[memory].copy));
}

void LiveCopies::renew() {
  for (size_t m = 0; m < memories_.size(); ++m)
    if (memories_[m].kept.defined())
      driver::bytesOf(memories_[m].copy).copy_(memories_[m].kept);
    else if (!agree(m))
      driver::bytesOf(memories_[m].copy).copy_(driver::bytesOf(memories_[m].original));
  makeTensors();
}

} // namespace graphopt::driver
