// Tensors that stand for results not computed yet, and what notices when somebody looks at their contents.
//
// A placeholder has its result's metadata and nothing else. Every way to its memory goes through two virtuals
// of TensorImpl, has_storage() and storage(): the frame hears of the first access, runs what is pending and
// fills the placeholder in, so the reader finds the real thing.
#pragma once
#include "capture/tensor_access.h"

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace graphopt::capture {

using ValueId = int32_t;
class Placeholder;

/// Whom placeholders report to: the frame of one call.
class PlaceholderOwner {
public:
  /// Somebody reads or writes the memory of a placeholder, or of a watched tensor. Returns when that may go
  /// on; throws when it may not.
  virtual void onAccess(const c10::TensorImpl &tensor) = 0;
  /// A placeholder that is watched was freed by its last holder.
  virtual void onFreed(const Placeholder &placeholder) = 0;

protected:
  ~PlaceholderOwner() = default;
};

/// What a tensor looks like without its contents.
struct Metadata {
  c10::SmallVector<int64_t, 5> sizes, strides;
  int64_t offset = 0; ///< in elements
  caffe2::TypeMeta dtype;
  c10::Device device{c10::kCPU};
  c10::DispatchKeySet keys;
  bool requiresGrad = false;
  bool isWrapped = false; ///< a number of the host, for type promotion
};
/// The offset is not compared, here and below: it is the memory's business.
bool operator==(const Metadata &a, const Metadata &b);
Metadata metadataOf(const at::Tensor &tensor);
void describe(const at::Tensor &tensor, Metadata &metadata); ///< the same, in place
/// Without the history.
[[gnu::always_inline]] inline bool sameLayout(const Metadata &expected, const c10::TensorImpl &actual) {
  auto equal = [](c10::IntArrayRef a, const c10::SmallVector<int64_t, 5> &b) {
    bool same = a.size() == b.size();
    for (size_t i = 0; same && i < b.size(); ++i)
      same = a[i] == b[i];
    return same;
  };
  return actual.key_set() == expected.keys && actual.dtype() == expected.dtype &&
         equal(actual.sizes(), expected.sizes) && equal(actual.strides(), expected.strides);
}

/// requires_grad(), without asking through virtuals.
inline bool asksForGrad(const c10::TensorImpl &tensor) {
  const auto *history = static_cast<const torch::autograd::AutogradMeta *>(autogradMeta(tensor));
  return history && (history->requires_grad_ || history->grad_fn_ ||
                     (history->is_view_ && tensor.requires_grad())); // as the base does
}

inline bool matches(const Metadata &expected, const c10::TensorImpl &actual) {
  return sameLayout(expected, actual) && asksForGrad(actual) == expected.requiresGrad &&
         actual.is_wrapped_number() == expected.isWrapped && actual.device() == expected.device;
}
std::string toString(const Metadata &metadata);

/// The grad_fn of promised placeholders that require grad. Whoever takes a gradient edge of one past the
/// hooks (a custom autograd Function, autograd::grad) holds an edge to this node, which is linked to the real
/// history when the placeholder is filled.
class GradientTrap final : public torch::autograd::Node {
public:
  GradientTrap();
  /// A new input slot for a placeholder.
  uint32_t addSlot(const at::Tensor &placeholder);
  /// Gradients of the slot go on to `tensor`'s history.
  void link(uint32_t slot, const at::Tensor &tensor);
  torch::autograd::variable_list apply(torch::autograd::variable_list &&gradients) override;
  std::string name() const override { return "graphopt::GradientTrap"; }
  int holders = 0; ///< placeholders whose history is an edge to this node

private:
  std::vector<bool> linked_;
};

class Placeholder final : public c10::TensorImpl {
public:
  /// With the metadata and no memory. `trap` is needed when the metadata requires grad.
  static c10::intrusive_ptr<Placeholder> make(const Metadata &metadata, ValueId value,
                                              PlaceholderOwner *owner,
                                              const std::shared_ptr<GradientTrap> &trap);
  /// A filled one in place of `result`, whose only holder the caller is; under watch.
  static at::Tensor adopt(at::Tensor result, ValueId value, PlaceholderOwner &owner);
  Placeholder(c10::DispatchKeySet keys, caffe2::TypeMeta dtype, std::optional<c10::Device> device)
      : TensorImpl(keys, dtype, device) {}
  ~Placeholder() override { takeLeave(); }
  /// Its last holder is gone, though weak references may keep the object longer than its owner lives.
  void release_resources() override {
    takeLeave();
    TensorImpl::release_resources();
  }

  bool has_storage() const override {
    if (isWatched_) [[unlikely]]
      owner_->onAccess(*this);
    return static_cast<bool>(storage_);
  }
  const c10::Storage &storage() const override {
    if (isWatched_) [[unlikely]]
      owner_->onAccess(*this);
    return storage_;
  }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion &version,
                                                         bool allowChange) const override;
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion &&version,
                                                         bool allowChange) const override;
  const char *tensorimpl_type_name() const override {
    return isFilled_ ? "TensorImpl" : "graphopt::Placeholder";
  }

  /// Becomes `result` in all but address: memory, version counter, geometry and, unless the program gave the
  /// placeholder a history of its own meanwhile, history. Returns itself as a tensor. `link`: also connects
  /// the trap's slot.
  at::Tensor fill(at::Tensor result, bool link);
  /// Whether the trap is still its grad_fn. Keeps the trap's count of holders right.
  bool checkTrap();
  /// Whether the program changed its history since it was made.
  bool hasOwnHistory() const;
  bool isFilled() const { return isFilled_; }
  ValueId value() const { return value_; }
  /// Reports accesses from now on, filled or not. `owner` null: no more.
  void watch(PlaceholderOwner *owner) {
    owner_ = owner;
    isWatched_ = owner != nullptr;
  }
  /// Its result will never come: accesses throw a user error.
  void kill();

private:
  bool holdsTrap() const;
  void leaveTrap();
  void takeLeave();
  void takeMemory(const c10::TensorImpl &source);
  void takeHistory(const at::Tensor &result);

  PlaceholderOwner *owner_ = nullptr;
  bool isWatched_ = false, isFilled_ = false;
  ValueId value_ = 0;
  uint32_t slot_ = 0;
  GradientTrap *trap_ = nullptr; // held by the history as made, and by the frame
  bool isCounted_ = false;       // among the trap's holders
};

/// Whether the tensor is a placeholder, filled or not.
bool isPlaceholder(const c10::TensorImpl &impl);
/// Whether it is one without a result.
inline bool isPromised(const c10::TensorImpl &impl) {
  return isPlaceholder(impl) && !static_cast<const Placeholder &>(impl).isFilled();
}

/// Lets a tensor of the program report accesses to its memory, whoever holds it; all else about it stays. A
/// tensor of a class of its own cannot be watched: false.
bool watchTensor(c10::TensorImpl &impl, PlaceholderOwner &owner);
void unwatchTensor(c10::TensorImpl &impl);
/// Whether a tensor that is no placeholder is under watch.
bool isWatched(const c10::TensorImpl &impl);
/// Who hears of accesses to watched tensors on this thread; other threads read on.
void setTensorWatcher(PlaceholderOwner *owner);

/// Whether this wheel's tensors have the virtuals all this rests on; else the reason.
std::string placeholderSelfTest();

} // namespace graphopt::capture
