// Members of TensorImpl that have no inline accessor, for code that runs at every operator.
#pragma once
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

} // namespace graphopt::capture
