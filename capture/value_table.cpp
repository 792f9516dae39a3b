// The order of questions: the tensor itself; its memory with the same geometry; its memory otherwise; else it
// comes from outside, and what kind of outside decides how a later call gets it (by pointer, or as a copy of
// the contents).
#include "capture/value_table.h"

#include "capture/tensor_type.h"
#include "capture/to_attr.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/InferenceMode.h>
#include <graphopt/error.h>

namespace graphopt::capture {
namespace {

using Kind = ir::Value::Kind;

const c10::StorageImpl *storageOf(const at::Tensor &tensor) {
  if (!tensor.has_storage())
    return nullptr;
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

bool isHostScalar(const at::Tensor &tensor) {
  return tensor.dim() == 0 && tensor.device().is_cpu() && !tensor.requires_grad();
}

/// Memory that the host brought along: it may be gone or hold something else at the next use.
bool isHostMemory(const at::Tensor &tensor) {
  const c10::StorageImpl *storage = storageOf(tensor);
  return storage && storage->allocator() == nullptr && tensor.numel() > 0;
}

} // namespace

at::Tensor detachedCopy(const at::Tensor &tensor) {
  c10::InferenceMode normal(false);
  c10::NoGradGuard noGrad;
  at::Tensor source = tensor.detach();
  at::Tensor once = source; // without the dims that repeat the same elements
  for (int64_t d = 0; d < source.dim(); ++d)
    if (source.stride(d) == 0 && source.size(d) > 1)
      once = once.narrow(d, 0, 1);
  at::Tensor copy = at::empty_strided(once.sizes(), once.strides(), once.options());
  copy.copy_(once);
  if (once.sizes() != source.sizes())
    copy = copy.expand(source.sizes());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
    copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copy;
}

ValueTable::ValueTable(Trace &trace) : trace_(trace) {
  // Values and calls are large: the first few dozen do not move.
  constexpr size_t kExpected = 128;
  trace.values.reserve(kExpected);
  trace.families.reserve(kExpected);
  trace.calls.reserve(kExpected);
  tensors_.reserve(kExpected);
  storages_.reserve(kExpected);
}

FamilyId ValueTable::familyOf(const at::Tensor &tensor) const {
  auto it = storages_.find(storageOf(tensor));
  return it == storages_.end() ? kNone : it->second.family;
}

FamilyId ValueTable::join(const at::Tensor &tensor, ValueId value) {
  const c10::StorageImpl *storage = storageOf(tensor);
  if (!storage) {
    trace_.families.push_back({{value}});
    return static_cast<FamilyId>(trace_.families.size() - 1);
  }
  auto it = storages_.find(storage);
  if (it == storages_.end()) {
    auto family = static_cast<FamilyId>(trace_.families.size());
    trace_.families.emplace_back();
    it = storages_.emplace(storage, KnownStorage{family, tensor.storage().getWeakStorageImpl()}).first;
  }
  trace_.families[it->second.family].values.push_back(value);
  return it->second.family;
}

void ValueTable::bind(const at::Tensor &tensor, ValueId value) {
  const c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  auto it = tensors_.find(impl);
  if (it != tensors_.end()) {
    it->second.value = value;
    return;
  }
  tensors_.emplace(impl, Known{value, WeakTensor(tensor.getIntrusivePtr())});
}

ValueId ValueTable::add(Kind kind, const at::Tensor &tensor) {
  auto id = static_cast<ValueId>(trace_.values.size());
  TraceValue &value = trace_.values.emplace_back();
  value.kind = kind;
  value.type = fullTypeOf(tensor);
  value.requiresGrad = tensor.requires_grad();
  value.offset = tensor.layout() == c10::kStrided && !tensor.is_nested() ? tensor.storage_offset() : 0;
  value.family = join(tensor, id);
  if (kind != Kind::Result)
    value.weak = WeakTensor(tensor.getIntrusivePtr());
  bind(tensor, id);
  std::string layout = unsupportedLayout(tensor);
  if (!layout.empty())
    remark_ = layout;
  return id;
}

ValueId ValueTable::declare(Kind kind, const std::string &name, const at::Tensor &tensor) {
  auto it = tensors_.find(tensor.unsafeGetTensorImpl());
  if (it != tensors_.end())
    return it->second.value;
  ValueId id = add(kind, tensor);
  TraceValue &value = trace_.values[id];
  value.name = name;
  if (kind != Kind::Input)
    value.held = tensor;
  return id;
}

ValueId ValueTable::addResult(const at::Tensor &tensor, int32_t call) {
  ValueId id = add(Kind::Result, tensor);
  trace_.values[id].definedBy = call;
  return id;
}

bool ValueTable::isStill(ValueId id, const at::Tensor &tensor) const {
  const TraceValue &value = trace_.values[id];
  if (!hasGeometry(value.type, tensor))
    return false;
  const c10::StorageImpl *storage = storageOf(tensor);
  if (!storage)
    return true;
  auto it = storages_.find(storage);
  return it != storages_.end() && it->second.family == value.family &&
         tensor.storage_offset() == value.offset;
}

ValueId ValueTable::use(const at::Tensor &tensor) {
  auto it = tensors_.find(tensor.unsafeGetTensorImpl());
  if (it == tensors_.end() || !isStill(it->second.value, tensor))
    return identify(tensor);
  TraceValue &value = trace_.values[it->second.value];
  const bool requiresGrad = tensor.requires_grad();
  if (requiresGrad && !value.requiresGrad && trace_.families[value.family].isWrittenWithGrad)
    value.requiresGrad = true; // a write through one view gives all of them its history
  if (value.requiresGrad != requiresGrad) {
    remark_ = "requires_grad was changed outside of the dispatcher";
    value.requiresGrad = requiresGrad;
  }
  return it->second.value;
}

ValueId ValueTable::identify(const at::Tensor &tensor) {
  auto it = tensors_.find(tensor.unsafeGetTensorImpl());
  if (it != tensors_.end())
    remark_ = "a tensor's memory was replaced outside of the dispatcher (set_data)";
  FamilyId family = familyOf(tensor);
  return family == kNone ? firstSeen(tensor) : aliasOf(family, tensor);
}

ValueId ValueTable::aliasOf(FamilyId family, const at::Tensor &tensor) {
  const std::vector<ValueId> &members = trace_.families[family].values;
  ValueId same = kNone;
  for (ValueId id : members) {
    const TraceValue &value = trace_.values[id];
    if (value.offset != tensor.storage_offset() || !hasGeometry(value.type, tensor))
      continue;
    if (value.requiresGrad == tensor.requires_grad()) {
      bind(tensor, id);
      return id;
    }
    same = id;
  }
  ValueId base = same == kNone ? members.front() : same;
  bool isPlain = !tensor.requires_grad() && trace_.values[base].type.dtype == tensor.scalar_type() &&
                 trace_.values[base].type.conj == tensor.is_conj() &&
                 trace_.values[base].type.neg == tensor.is_neg();
  bool madeHere = trace_.values[members.front()].kind == Kind::Result;
  if (isPlain && (same != kNone || madeHere))
    return unrecordedView(base, tensor, same != kNone);
  return add(Kind::Outside, tensor); // overlaps the family: a write to either becomes a border
}

ValueId ValueTable::appendView(const char *name, ValueId operand, std::vector<ir::NamedAttr> attrs,
                               const at::Tensor &tensor) {
  TraceCall call;
  call.facts = &factsOf(c10::Dispatcher::singleton().findSchemaOrThrow(name, ""));
  call.name = call.facts->name;
  call.operands.push_back({operand, ir::Mark::Alias, false, {}});
  call.attrs = std::move(attrs);
  call.isSynthetic = true;
  auto index = static_cast<int32_t>(trace_.calls.size());
  ValueId result = addResult(tensor, index);
  call.results.push_back(result);
  trace_.calls.push_back(std::move(call));
  return result;
}

/// Tensor::data(), variable_data() and friends make aliases without an operator; the graph says what they
/// amount to.
ValueId ValueTable::unrecordedView(ValueId base, const at::Tensor &tensor, bool sameGeometry) {
  if (sameGeometry)
    return appendView("aten::detach", base, {}, tensor);
  std::vector<ir::NamedAttr> attrs = {{"size", ir::Attr::ints(tensor.sizes().vec())},
                                      {"stride", ir::Attr::ints(tensor.strides().vec())},
                                      {"storage_offset", ir::Attr::integer(tensor.storage_offset())}};
  ValueId source = base;
  if (trace_.values[base].requiresGrad)
    source = appendView("aten::detach", base, {}, tensor);
  ValueId view = appendView("aten::as_strided", source, std::move(attrs), tensor);
  if (source != base) { // the detached step has the base's geometry, not the view's
    trace_.values[source].type = trace_.values[base].type;
    trace_.values[source].offset = trace_.values[base].offset;
  }
  return view;
}

ValueId ValueTable::firstSeen(const at::Tensor &tensor) {
  if (isHostScalar(tensor)) {
    ValueId id = add(Kind::HostVal, tensor);
    trace_.values[id].held = detachedCopy(tensor);
    return id;
  }
  if (!isHostMemory(tensor) || tensor.requires_grad())
    return add(Kind::Outside, tensor);
  ValueId id = add(Kind::Const, tensor);
  trace_.values[id].isHostMemory = true;
  trace_.values[id].held = detachedCopy(tensor);
  return id;
}

void ValueTable::freezeContents(FamilyId family, const at::Tensor &member) {
  TraceFamily &frozen = trace_.families[family];
  frozen.isUninitialized = false;
  TraceValue &base = trace_.values[frozen.base()];
  if (base.kind != Kind::Result)
    return;
  std::vector<int64_t> sizes, strides;
  for (const ir::Dim &dim : base.type.sizes)
    sizes.push_back(dim.value());
  for (const ir::Dim &dim : base.type.stridesOrContiguous())
    strides.push_back(dim.value());
  c10::InferenceMode normal(false);
  at::Tensor whole = at::empty({0}, member.options().dtype(base.type.dtype).requires_grad(false));
  whole.set_(member.storage(), base.offset, sizes, strides);
  base.held = detachedCopy(whole);
  base.kind = Kind::Const;
  trace_.calls[base.definedBy].isErased = true;
  base.definedBy = kNone;
}

} // namespace graphopt::capture
