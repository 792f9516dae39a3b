// LibTorch's own shape functions, through operators called on twins: tensors of the Meta device with the same
// sizes and strides and no memory. Twins share storages where the originals share memory, so that what a
// result is a view of shows as well.
#include "capture/meta_run.h"

#include "capture/plain_dispatch.h"
#include "capture/shapes.h"
#include "capture/tensor_access.h"

#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <unordered_map>

namespace graphopt::capture {
namespace {

/// So large that every view fits: it is a number, nothing is allocated.
constexpr size_t kAnySize = size_t(1) << 56;

class Twins {
public:
  Twins(const Segment &segment, size_t row)
      : segment_(segment), info_(segment.infos[row]),
        isCasting_(c10::DispatchKeySet(c10::DispatchKeySet::RAW, segment.rows[row].keys)
                       .has_any(c10::autocast_dispatch_keyset)) {}

  /// Arguments for the operator; false when a twin cannot stand for one of them.
  bool push(torch::jit::Stack &stack) {
    for (size_t i = 0; i < info_.arguments.size(); ++i)
      if (!pushArgument(stack, i))
        return false;
    return true;
  }
  const at::Tensor &of(ValueId id) { return twins_[id]; }
  /// Whether a result has the memory that the segment says.
  bool hasFamily(const at::Tensor &result, ValueId id) {
    ValueId family = segment_.values[id].family;
    auto known = storages_.find(family);
    if (known != storages_.end())
      return storageOf(*result.unsafeGetTensorImpl()) == known->second.unsafeGetStorageImpl();
    for (const auto &[other, storage] : storages_)
      if (storageOf(*result.unsafeGetTensorImpl()) == storage.unsafeGetStorageImpl())
        return false;
    storages_.emplace(family, result.unsafeGetTensorImpl()->unsafe_storage());
    return true;
  }

private:
  bool pushArgument(torch::jit::Stack &stack, size_t argument) {
    const ArgumentFacts &facts = info_.facts->arguments[argument];
    const c10::IValue &plain = info_.arguments[argument];
    if (facts.role == ArgumentFacts::Role::Attr) {
      stack.push_back(plain.isDevice() ? c10::IValue(c10::Device(c10::kMeta)) : plain);
      return true;
    }
    std::vector<at::Tensor> tensors;
    for (ValueId id : info_.operands[argument]) {
      if (!twin(id))
        return false;
      tensors.push_back(twins_[id]);
    }
    pushTensors(stack, facts, plain, tensors);
    return true;
  }

  bool twin(ValueId id) {
    if (id == 0 || twins_.contains(id))
      return twins_[id], true;
    const Metadata &metadata = segment_.values[id].metadata;
    bool isLazy = metadata.keys.has_any(c10::DispatchKeySet(
        {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor}));
    if (isLazy)
      return false;
    caffe2::TypeMeta dtype = metadata.dtype;
    if (isCasting_ && c10::isFloatingType(dtype.toScalarType()))
      dtype = caffe2::TypeMeta::Make<float>(); // as if the casts had been made: sizes do not ask which
    auto impl = c10::make_intrusive<c10::TensorImpl>(storage(segment_.values[id].family),
                                                     c10::DispatchKeySet(c10::DispatchKey::Meta), dtype);
    impl->set_sizes_and_strides(metadata.sizes, metadata.strides);
    impl->set_storage_offset(metadata.offset);
    if (metadata.isWrapped)
      impl->set_wrapped_number(true);
    twins_[id] = at::Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(std::move(impl)));
    return true;
  }

  c10::Storage storage(ValueId family) {
    auto known = storages_.find(family);
    if (known != storages_.end())
      return known->second;
    c10::Storage storage =
        at::empty({0}, at::TensorOptions(c10::kMeta)).unsafeGetTensorImpl()->unsafe_storage();
    storage.set_nbytes(kAnySize);
    return storages_.emplace(family, storage).first->second;
  }

  const Segment &segment_;
  const RowInfo &info_;
  bool isCasting_;
  std::unordered_map<ValueId, at::Tensor> twins_;
  std::unordered_map<ValueId, c10::Storage> storages_;
};

/// The results that the row makes; false when it returns others than the segment says.
bool takeResults(const RowInfo &info, torch::jit::Stack &stack, Twins &twins, ResultLayouts &layouts) {
  size_t next = 0;
  bool fits = true;
  auto take = [&](const at::Tensor &result) {
    ValueId id = next < info.results.size() ? info.results[next] : -1;
    ++next;
    bool isMade = id >= static_cast<ValueId>(info.valuesBefore);
    if (id <= 0 || !isMade) {
      fits &= id == 0 ? !result.defined() : id > 0 && result.is_same(twins.of(id));
      return;
    }
    if (!result.defined() || !result.has_storage() || !twins.hasFamily(result, id)) {
      fits = false;
      return;
    }
    layouts.push_back({{result.sizes().begin(), result.sizes().end()},
                       Sizes(result.strides().begin(), result.strides().end()),
                       result.storage_offset()});
  };
  for (const c10::IValue &value : stack) {
    if (value.isTensor())
      take(value.toTensor());
    else if (value.isTensorList())
      for (const at::Tensor &item : value.toTensorVector())
        take(item);
    else
      return false;
  }
  return fits && next == info.results.size();
}

/// A tensor of the real device without memory, for questions about kernels.
at::Tensor bare(const Metadata &metadata) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(metadata.keys, metadata.dtype, metadata.device);
  impl->set_sizes_and_strides(metadata.sizes, metadata.strides);
  return at::Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(std::move(impl)));
}

} // namespace

void pushTensors(torch::jit::Stack &stack, const ArgumentFacts &facts, const c10::IValue &mark,
                 c10::ArrayRef<at::Tensor> tensors) {
  const c10::Type *type = facts.type.get();
  bool isOptional = type->kind() == c10::TypeKind::OptionalType;
  if (facts.role == ArgumentFacts::Role::Tensor) {
    bool isMissing = isOptional && !tensors[0].defined();
    stack.push_back(isMissing ? c10::IValue() : c10::IValue(tensors[0]));
    return;
  }
  if (mark.isNone()) {
    stack.emplace_back();
    return;
  }
  if (isOptional)
    type = type->castRaw<c10::OptionalType>()->getElementType().get();
  if (type->castRaw<c10::ListType>()->getElementType()->kind() != c10::TypeKind::OptionalType) {
    stack.emplace_back(c10::List<at::Tensor>(tensors));
    return;
  }
  c10::List<std::optional<at::Tensor>> list;
  for (const at::Tensor &tensor : tensors)
    list.push_back(tensor.defined() ? std::optional(tensor) : std::nullopt);
  stack.emplace_back(std::move(list));
}

std::optional<ResultLayouts> layoutsByMeta(const Segment &segment, size_t row) {
  const RowInfo &info = segment.infos[row];
  PlainDispatch plain;
  Twins twins(segment, row);
  torch::jit::Stack stack;
  ResultLayouts layouts;
  try {
    if (!twins.push(stack))
      return std::nullopt;
    info.op->callBoxed(stack);
    if (!takeResults(info, stack, twins, layouts))
      return std::nullopt;
  } catch (
      const c10::Error &) { // no such kernel, or arguments that the operator refuses: it will say so itself
    return std::nullopt;
  }
  return layouts;
}

int64_t attentionKernel(const Segment &segment, size_t row) {
  const RowInfo &info = segment.infos[row];
  std::vector<at::Tensor> operands;
  for (size_t i = 0; i < 4; ++i) {
    ValueId id = info.operands[i].empty() ? 0 : info.operands[i][0];
    operands.push_back(id == 0 ? at::Tensor() : bare(segment.values[id].metadata));
  }
  PlainDispatch plain;
  std::optional<at::Tensor> mask;
  if (operands[3].defined())
    mask = operands[3];
  return at::_fused_sdp_choice(operands[0], operands[1], operands[2], mask, info.arguments[4].toDouble(),
                               info.arguments[5].toBool());
}

} // namespace graphopt::capture
