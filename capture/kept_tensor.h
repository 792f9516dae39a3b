// A parameter or buffer as it was when it was last bound, to see at a glance that nothing about it has
// changed.
#pragma once
#include "capture/same_words.h"
#include "capture/tensor_access.h"

#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <cstring>

namespace graphopt::capture {

/// All of a TensorImpl is compared but the count of its holders: class, memory, history, sizes, strides,
/// keys.
class KeptTensor {
public:
  /// Whether all that decides about the tensor lies in what is compared: sizes of many dims lie elsewhere,
  /// and a tensor with a history takes over its requires_grad from it.
  static bool admits(const c10::TensorImpl &tensor) {
    const auto *meta = metaOf(tensor);
    return tensor.dim() <= C10_SIZES_AND_STRIDES_MAX_INLINE_SIZE && (!meta || isLeaf(*meta));
  }
  void keep(const c10::TensorImpl &tensor) {
    impl_ = &tensor;
    class_ = classOf(tensor);
    meta_ = metaOf(tensor);
    requiresGrad_ = meta_ && meta_->requires_grad_;
    std::memcpy(words_, bytesOf(tensor), sizeof(words_));
  }
  void forget() { impl_ = nullptr; }

  [[gnu::always_inline]] bool isSame(const c10::TensorImpl &tensor) const {
    if (impl_ != &tensor || class_ != classOf(tensor) || !sameWords<kWords>(words_, bytesOf(tensor)))
      return false;
    return !meta_ || (meta_->requires_grad_ == requiresGrad_ && isLeaf(*meta_));
  }
  /// Asks for the memory that isSame() will look at.
  [[gnu::always_inline]] void prefetch() const {
    constexpr size_t kLine = 64;
    for (size_t at = 0; at < sizeof(c10::TensorImpl); at += kLine)
      __builtin_prefetch(reinterpret_cast<const char *>(impl_) + at);
    if (meta_)
      __builtin_prefetch(&meta_->requires_grad_);
  }

private:
  using Meta = torch::autograd::AutogradMeta;
  static constexpr size_t kBegin = sizeof(c10::intrusive_ptr_target);
  static constexpr size_t kWords = (sizeof(c10::TensorImpl) - kBegin) / 8;
  static_assert((sizeof(c10::TensorImpl) - kBegin) % 8 == 0);

  static const Meta *metaOf(const c10::TensorImpl &tensor) {
    return static_cast<const Meta *>(autogradMeta(tensor));
  }
  static bool isLeaf(const Meta &meta) { return !meta.grad_fn_ && !meta.is_view_; }
  static const char *bytesOf(const c10::TensorImpl &tensor) {
    return reinterpret_cast<const char *>(&tensor) + kBegin;
  }

  const c10::TensorImpl *impl_ = nullptr;
  const void *class_ = nullptr;
  const Meta *meta_ = nullptr;
  bool requiresGrad_ = false;
  uint64_t words_[kWords];
};

} // namespace graphopt::capture
