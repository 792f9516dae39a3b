// What code that runs at every operator needs of a TensorImpl, without asking through virtuals.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

namespace graphopt::capture {

using AutogradMetaMember = std::unique_ptr<c10::AutogradMetaInterface> c10::TensorImpl::*;
/// Names the private member: an explicit instantiation is allowed to.
struct AutogradMetaTag {
  friend AutogradMetaMember memberOf(AutogradMetaTag);
};
template <class Tag, AutogradMetaMember Member> struct ExposeMember {
  friend AutogradMetaMember memberOf(Tag) { return Member; }
};
template struct ExposeMember<AutogradMetaTag, &c10::TensorImpl::autograd_meta_>;

inline std::unique_ptr<c10::AutogradMetaInterface> &autogradMeta(c10::TensorImpl &impl) {
  return impl.*memberOf(AutogradMetaTag{});
}
inline const c10::AutogradMetaInterface *autogradMeta(const c10::TensorImpl &impl) {
  return (impl.*memberOf(AutogradMetaTag{})).get();
}

/// The tensor's memory as it is now; null: none, or not computed yet.
inline const c10::StorageImpl *storageOf(const c10::TensorImpl &tensor) {
  return tensor.unsafe_storage().unsafeGetStorageImpl();
}

/// What tells a tensor's class: its table of virtual functions.
inline const void *classOf(const c10::TensorImpl &impl) {
  return *reinterpret_cast<const void *const *>(&impl);
}

/// One more holder of the tensor.
[[gnu::always_inline]] inline at::Tensor tensorOf(c10::TensorImpl &impl) {
  c10::raw::intrusive_ptr::incref(&impl);
  return at::Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim(&impl));
}

} // namespace graphopt::capture
