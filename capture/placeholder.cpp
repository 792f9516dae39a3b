// The one place that reaches into TensorImpl. Two liberties are taken, both checked by placeholderSelfTest():
// AutogradMeta is moved between tensors (its member is private; an explicit instantiation may name it), and a
// plain tensor is watched by exchanging its vtable pointer for one of a class without members of its own.
#include "capture/placeholder.h"

#include "ir/type.h"

#include <ATen/ops/empty.h>
#include <graphopt/error.h>
#include <torch/csrc/autograd/variable.h>

namespace graphopt::capture {

static thread_local PlaceholderOwner *tensorWatcher = nullptr;

/// A tensor of the program under watch. With a linkage of its own: the sanitizer's check of dynamic types
/// takes no other. That check is off in its members: another thread that shares the tensor may begin or end a
/// watch between the call's look at the vtable and the check's.
struct WatchedTensor final : c10::TensorImpl {
  using TensorImpl::TensorImpl;
  [[gnu::no_sanitize("vptr")]] bool has_storage() const override {
    report();
    return static_cast<bool>(storage_);
  }
  [[gnu::no_sanitize("vptr")]] const c10::Storage &storage() const override {
    report();
    return storage_;
  }
  [[gnu::no_sanitize("vptr")]] void report() const {
    if (tensorWatcher) // of a thread without one: the tensor is shared, and read as in eager
      tensorWatcher->onAccess(*this);
  }
};

namespace {

void setVtable(c10::TensorImpl &impl, const void *vtable) {
  *reinterpret_cast<const void **>(&impl) = vtable;
}

struct Vtables {
  const void *plain, *watched, *placeholder;
};

Vtables readVtables() {
  c10::DispatchKeySet keys(c10::DispatchKey::CPU);
  caffe2::TypeMeta dtype = caffe2::TypeMeta::Make<float>();
  c10::Device device(c10::kCPU);
  return {classOf(*c10::make_intrusive<c10::TensorImpl>(keys, dtype, device)),
          classOf(*c10::make_intrusive<WatchedTensor>(keys, dtype, device)),
          classOf(*c10::make_intrusive<Placeholder>(keys, dtype, device))};
}
const Vtables vtables = readVtables();

/// Answers for placeholders whose segment failed.
class DeadOwner final : public PlaceholderOwner {
public:
  void onAccess(const c10::TensorImpl &) override {
    userError("a result of a compiled call is read, but an operator before it threw: see that error");
  }
  void onFreed(const Placeholder &) override {}
};

} // namespace

Metadata metadataOf(const at::Tensor &tensor) {
  Metadata metadata;
  describe(tensor, metadata);
  return metadata;
}

void describe(const at::Tensor &tensor, Metadata &metadata) {
  const c10::TensorImpl &impl = *tensor.unsafeGetTensorImpl();
  metadata.sizes.assign(impl.sizes().begin(), impl.sizes().end());
  metadata.strides.assign(impl.strides().begin(), impl.strides().end());
  metadata.offset = impl.storage_offset();
  metadata.dtype = impl.dtype();
  metadata.device = impl.device();
  metadata.keys = impl.key_set();
  metadata.requiresGrad = asksForGrad(impl);
  metadata.isWrapped = impl.is_wrapped_number();
}

bool operator==(const Metadata &a, const Metadata &b) {
  return a.sizes == b.sizes && a.strides == b.strides && a.dtype == b.dtype && a.device == b.device &&
         a.keys == b.keys && a.requiresGrad == b.requiresGrad && a.isWrapped == b.isWrapped;
}

std::string toString(const Metadata &metadata) {
  std::vector<int64_t> contiguous(metadata.sizes.size());
  int64_t stride = 1;
  for (size_t d = metadata.sizes.size(); d-- > 0;) {
    contiguous[d] = stride;
    stride *= std::max<int64_t>(metadata.sizes[d], 1);
  }
  std::string text =
      fmt::format("{}[{}]", ir::dtypeName(metadata.dtype.toScalarType()), fmt::join(metadata.sizes, ", "));
  if (!std::ranges::equal(contiguous, metadata.strides))
    text += fmt::format(" strides [{}]", fmt::join(metadata.strides, ", "));
  if (!metadata.device.is_cpu())
    text += " " + metadata.device.str();
  if (metadata.requiresGrad)
    text += " grad";
  if (metadata.isWrapped)
    text += " number";
  return text;
}

GradientTrap::GradientTrap() {
  topological_nr_ = 1u << 20; // above every real node: linked late, when the engine has no parents recorded
}

uint32_t GradientTrap::addSlot(const at::Tensor &placeholder) {
  linked_.push_back(false);
  return add_input_metadata(placeholder);
}

void GradientTrap::link(uint32_t slot, const at::Tensor &tensor) {
  if (next_edges_.size() < linked_.size())
    next_edges_.resize(linked_.size());
  next_edges_[slot] = torch::autograd::impl::gradient_edge(tensor);
  linked_[slot] = true;
}

torch::autograd::variable_list GradientTrap::apply(torch::autograd::variable_list &&gradients) {
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined() && !linked_[i])
      userError("backward runs through a result of a compiled call that was never computed");
  gradients.resize(next_edges_.size());
  return std::move(gradients);
}

c10::intrusive_ptr<Placeholder> Placeholder::make(const Metadata &metadata, ValueId value,
                                                  PlaceholderOwner *owner,
                                                  const std::shared_ptr<GradientTrap> &trap) {
  auto made = c10::make_intrusive<Placeholder>(metadata.keys, metadata.dtype, metadata.device);
  made->value_ = value;
  // TensorImpl's constructor goes by the inference mode of the moment, which need not be that of the result.
  made->key_set_ = metadata.keys;
  const bool counts = !made->is_inference();
  if (counts != made->version_counter().enabled())
    made->set_version_counter(counts ? c10::VariableVersion(0)
                                     : c10::VariableVersion(c10::VariableVersion::DISABLED));
  made->set_sizes_and_strides(metadata.sizes, metadata.strides);
  made->set_storage_offset(metadata.offset);
  if (metadata.isWrapped) [[unlikely]]
    made->set_wrapped_number(true);
  if (metadata.requiresGrad) {
    at::Tensor tensor = tensorOf(*made);
    made->trap_ = trap.get();
    made->isCounted_ = true;
    ++trap->holders;
    made->slot_ = trap->addSlot(tensor);
    made->set_autograd_meta(std::make_unique<torch::autograd::AutogradMeta>(
        made.get(), false, torch::autograd::Edge(trap, made->slot_)));
  }
  made->watch(owner);
  return made;
}

void Placeholder::takeLeave() {
  leaveTrap();
  if (owner_)
    owner_->onFreed(*this);
  watch(nullptr);
}

c10::intrusive_ptr<c10::TensorImpl> Placeholder::shallow_copy_and_detach(const c10::VariableVersion &version,
                                                                         bool allowChange) const {
  if (isWatched_)
    owner_->onAccess(*this);
  return TensorImpl::shallow_copy_and_detach(version, allowChange);
}

c10::intrusive_ptr<c10::TensorImpl> Placeholder::shallow_copy_and_detach(c10::VariableVersion &&version,
                                                                         bool allowChange) const {
  if (isWatched_)
    owner_->onAccess(*this);
  return TensorImpl::shallow_copy_and_detach(std::move(version), allowChange);
}

at::Tensor Placeholder::adopt(at::Tensor result, ValueId value, PlaceholderOwner &owner) {
  const c10::TensorImpl &impl = *result.unsafeGetTensorImpl();
  auto made = c10::make_intrusive<Placeholder>(impl.key_set(), impl.dtype(), impl.device());
  made->value_ = value;
  at::Tensor tensor = made->fill(std::move(result), false);
  made->watch(&owner);
  return tensor;
}

void Placeholder::leaveTrap() {
  if (isCounted_)
    --trap_->holders; // alive: an intact history holds it, and a frame that found one changed has counted it
                      // out
  isCounted_ = false;
}

bool Placeholder::checkTrap() {
  if (!holdsTrap())
    leaveTrap();
  return isCounted_;
}

bool Placeholder::holdsTrap() const {
  const auto *meta = static_cast<const torch::autograd::AutogradMeta *>(autograd_meta());
  return trap_ && meta && meta->grad_fn_.get() == trap_;
}

bool Placeholder::hasOwnHistory() const {
  const auto *meta = static_cast<const torch::autograd::AutogradMeta *>(autogradMeta(*this));
  if (!meta)
    return trap_ != nullptr;
  return !holdsTrap() || meta->requires_grad_ || !meta->hooks_.empty() || meta->grad_.defined();
}

void Placeholder::takeHistory(const at::Tensor &result) {
  if (hasOwnHistory())
    return;
  c10::TensorImpl &source = *result.unsafeGetTensorImpl();
  if (!autogradMeta(source)) {
    if (autogradMeta(*this))
      set_autograd_meta(nullptr);
    return;
  }
  if (result.use_count() == 1) {
    set_autograd_meta(std::move(autogradMeta(source)));
    return;
  }
  // Somebody else holds the result (a cache of the operator's): its history is shared, not taken.
  set_autograd_meta(nullptr);
  at::Tensor self = tensorOf(*this);
  if (result.requires_grad())
    torch::autograd::impl::set_gradient_edge(self, torch::autograd::impl::gradient_edge(result));
}

/// Of a few dims: less than a call costs.
static bool sameDims(c10::IntArrayRef a, c10::IntArrayRef b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i)
    same = a[i] == b[i];
  return same;
}

/// Memory and geometry, unless the program installed memory of its own meanwhile (as deserialisers do).
void Placeholder::takeMemory(const c10::TensorImpl &source) {
  if (storage_)
    return;
  storage_ = source.unsafe_storage();
  device_opt_ = source.device();
  if (!sameDims(sizes(), source.sizes()) || !sameDims(strides(), source.strides()))
    set_sizes_and_strides(source.sizes(), source.strides());
  storage_offset_ = source.storage_offset();
  key_set_ = source.key_set();
  if (source.is_wrapped_number() != is_wrapped_number())
    set_wrapped_number(source.is_wrapped_number());
  // Writes that the program announced by hand (mark_dirty) count as well.
  const auto announced = isFilled_ || !version_counter().enabled() ? 0 : version_counter().current_version();
  set_version_counter(source.version_counter());
  for (uint32_t i = 0; i < announced; ++i)
    bump_version();
}

at::Tensor Placeholder::fill(at::Tensor result, bool link) {
  c10::TensorImpl &source = *result.unsafeGetTensorImpl();
  watch(nullptr);
  takeMemory(source);
  isFilled_ = true;
  const std::shared_ptr<torch::autograd::Node> trap =
      link && trap_ ? trap_->getptr() : nullptr; // the history that holds it goes now
  leaveTrap();
  takeHistory(result);
  at::Tensor self = tensorOf(*this);
  if (trap && self.requires_grad())
    trap_->link(slot_, self);
  trap_ = nullptr;
  return self;
}

void Placeholder::kill() {
  static DeadOwner &dead = *new DeadOwner;
  watch(&dead);
}

bool isPlaceholder(const c10::TensorImpl &impl) { return classOf(impl) == vtables.placeholder; }

/// One that is not filled has an owner who answers for it: another call, or nobody since its operator threw.
static bool isFilledPlaceholder(const c10::TensorImpl &impl) {
  return isPlaceholder(impl) && static_cast<const Placeholder &>(impl).isFilled();
}

bool watchTensor(c10::TensorImpl &impl, PlaceholderOwner &owner) {
  const void *vtable = classOf(impl);
  if (vtable == vtables.plain)
    setVtable(impl, vtables.watched);
  else if (isFilledPlaceholder(impl))
    static_cast<Placeholder &>(impl).watch(&owner);
  else
    return vtable == vtables.watched || vtable == vtables.placeholder; // by another call
  return true;
}

void unwatchTensor(c10::TensorImpl &impl) {
  if (classOf(impl) == vtables.watched)
    setVtable(impl, vtables.plain);
  else if (isFilledPlaceholder(impl))
    static_cast<Placeholder &>(impl).watch(nullptr);
}

bool isWatched(const c10::TensorImpl &impl) { return classOf(impl) == vtables.watched; }

void setTensorWatcher(PlaceholderOwner *owner) { tensorWatcher = owner; }

std::string placeholderSelfTest() {
  struct Counter final : PlaceholderOwner {
    int accesses = 0;
    void onAccess(const c10::TensorImpl &) override { ++accesses; }
    void onFreed(const Placeholder &) override {}
  } counter;
  at::Tensor plain = at::empty({2});
  at::Tensor promised(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(
      Placeholder::make(metadataOf(plain), 1, &counter, nullptr)));
  auto &placeholder = static_cast<Placeholder &>(*promised.unsafeGetTensorImpl());
  placeholder.has_storage();
  if (counter.accesses != 1)
    return "this LibTorch does not ask has_storage() through the tensor's class";
  placeholder.fill(plain, false);
  if (!watchTensor(*plain.unsafeGetTensorImpl(), counter))
    return "this LibTorch makes tensors of an unknown class";
  setTensorWatcher(&counter);
  plain.const_data_ptr();
  setTensorWatcher(nullptr);
  unwatchTensor(*plain.unsafeGetTensorImpl());
  bool sameMemory = promised.const_data_ptr() == plain.const_data_ptr();
  return counter.accesses == 2 && sameMemory ? "" : "this LibTorch reads memory past storage()";
}

} // namespace graphopt::capture
