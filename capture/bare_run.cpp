// A twin of the Meta device stands for each operand: the same sizes and strides and no memory. Twins share
// storages where the operands share memory, so a result that is a view without its schema saying so shows.
#include "capture/bare_run.h"

#include "capture/bare_rules.h"
#include "capture/meta_run.h"
#include "capture/plain_dispatch.h"
#include "capture/tensor_access.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <unordered_map>

namespace graphopt::capture {
namespace {

constexpr size_t kAnySize = size_t(1) << 56; // every view fits; nothing is allocated

using Impl = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

bool isMask(const at::Tensor &tensor) {
  return tensor.defined() && (tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte);
}

class BareRun {
public:
  BareRun(const c10::OperatorHandle &op, const OperatorFacts &facts, torch::jit::Stack &stack)
      : op_(op), facts_(facts), stack_(stack),
        arguments_(stack.end() - static_cast<ptrdiff_t>(facts.arguments.size()), stack.end()) {}

  bool run() {
    if (facts_.sizesFromData || facts_.readsData || facts_.hasPlainResult || facts_.changesGeometry)
      return false;
    if (facts_.isWrite)
      return answerWritten();
    for (const ArgumentFacts &argument : facts_.arguments)
      if (argument.isAliased)
        return false; // a view
    PlainDispatch plain;
    if (std::optional<std::vector<BareResult>> results = resultsByRule(facts_, arguments_))
      return answer(*results);
    return answerByMeta();
  }

private:
  /// What is written keeps its geometry, or the operator refuses when it runs.
  bool answerWritten() {
    const c10::FunctionSchema &schema = op_.schema();
    torch::jit::Stack results;
    for (const c10::Argument &result : schema.returns()) {
      const c10::AliasInfo *alias = result.alias_info();
      if (!alias)
        return false;
      for (size_t i = 0; i < arguments_.size(); ++i) {
        const c10::Argument &argument = schema.arguments()[i];
        if (argument.is_out())
          return false;
        if (argument.alias_info() && *argument.alias_info() == *alias)
          results.push_back(arguments_[i]);
      }
    }
    return results.size() == schema.returns().size() && replace(std::move(results));
  }

  bool answer(const std::vector<BareResult> &results) {
    torch::jit::Stack made;
    for (const BareResult &result : results)
      made.emplace_back(result.isUndefined ? at::Tensor() : make(result.sizes, result.strides, result.dtype));
    return replace(std::move(made));
  }

  bool replace(torch::jit::Stack results) {
    torch::jit::drop(stack_, arguments_.size());
    stack_.insert(stack_.end(), std::make_move_iterator(results.begin()),
                  std::make_move_iterator(results.end()));
    return true;
  }

  // ---- by LibTorch's shape functions

  bool answerByMeta() {
    torch::jit::Stack stack, results;
    try {
      for (size_t i = 0; i < arguments_.size(); ++i)
        if (!pushTwin(stack, i))
          return false;
      op_.callBoxed(stack);
    } catch (const c10::Error &) { // no such kernel, or arguments that the operator refuses: it will say so
      return false;
    }
    for (const c10::IValue &value : stack)
      if (!takeResult(value, results))
        return false;
    return replace(std::move(results));
  }

  bool pushTwin(torch::jit::Stack &stack, size_t i) {
    const ArgumentFacts &facts = facts_.arguments[i];
    const c10::IValue &value = arguments_[i];
    if (facts.role == ArgumentFacts::Role::Attr) {
      const bool isDevice = value.isDevice() || facts.name == "device";
      if (value.isDevice())
        device_ = value.toDevice();
      stack.push_back(isDevice ? c10::IValue(c10::Device(c10::kMeta)) : value);
      return !value.isGenerator();
    }
    std::vector<at::Tensor> tensors;
    for (const at::Tensor &tensor : tensorsIn(value)) {
      if (facts_.base.starts_with("index") && facts.name == "indices" && isMask(tensor))
        return false; // as many results as the mask has ones
      tensors.push_back(twinOf(tensor));
      if (tensor.defined() && !tensors.back().defined())
        return false;
    }
    pushTensors(stack, facts, value, tensors);
    return true;
  }

  static std::vector<at::Tensor> tensorsIn(const c10::IValue &value) {
    if (value.isTensor())
      return {value.toTensor()};
    if (value.isNone())
      return {at::Tensor()};
    std::vector<at::Tensor> tensors;
    for (const c10::IValue &item : value.toListRef())
      tensors.push_back(item.isNone() ? at::Tensor() : item.toTensor());
    return tensors;
  }

  at::Tensor twinOf(const at::Tensor &tensor) {
    if (!tensor.defined() || tensor.layout() != c10::kStrided || !tensor.has_storage() || tensor.is_conj() ||
        tensor.is_neg())
      return {};
    if (tensor.dim() > 0 || !device_)
      device_ = tensor.device();
    const c10::StorageImpl *memory = storageOf(*tensor.unsafeGetTensorImpl());
    auto known = storages_.find(memory);
    if (known == storages_.end()) {
      c10::Storage storage =
          at::empty({0}, at::TensorOptions(c10::kMeta)).unsafeGetTensorImpl()->unsafe_storage();
      storage.set_nbytes(kAnySize);
      known = storages_.emplace(memory, storage).first;
    }
    auto impl = c10::make_intrusive<c10::TensorImpl>(
        c10::Storage(known->second), c10::DispatchKeySet(c10::DispatchKey::Meta), tensor.dtype());
    impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
    impl->set_storage_offset(tensor.storage_offset());
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
      impl->set_wrapped_number(true);
    originals_.emplace(known->second.unsafeGetStorageImpl(), tensor);
    return at::Tensor(Impl(std::move(impl)));
  }

  bool takeResult(const c10::IValue &value, torch::jit::Stack &results) {
    if (value.isTensor()) {
      std::optional<at::Tensor> real = realOf(value.toTensor());
      if (real)
        results.emplace_back(*real);
      return real.has_value();
    }
    if (!value.isTensorList())
      return false;
    c10::List<at::Tensor> list;
    for (const at::Tensor &item : value.toTensorVector()) {
      std::optional<at::Tensor> real = realOf(item);
      if (!real)
        return false;
      list.push_back(*real);
    }
    results.emplace_back(std::move(list));
    return true;
  }

  std::optional<at::Tensor> realOf(const at::Tensor &meta) {
    if (!meta.defined())
      return at::Tensor();
    if (!meta.is_meta() || !meta.has_storage())
      return std::nullopt;
    auto original = originals_.find(storageOf(*meta.unsafeGetTensorImpl()));
    if (original == originals_.end())
      return make(meta.sizes(), meta.strides(), meta.scalar_type());
    const c10::TensorImpl &source = *original->second.unsafeGetTensorImpl();
    auto view = c10::make_intrusive<c10::TensorImpl>(c10::Storage(source.unsafe_storage()), source.key_set(),
                                                     meta.dtype());
    view->set_sizes_and_strides(meta.sizes(), meta.strides());
    view->set_storage_offset(meta.storage_offset());
    return at::Tensor(Impl(std::move(view)));
  }

  at::Tensor make(c10::IntArrayRef sizes, c10::IntArrayRef strides, at::ScalarType dtype) const {
    at::Tensor made = at::empty_strided(
        sizes, strides,
        at::TensorOptions().dtype(dtype).device(ruleDevice().value_or(device_.value_or(c10::kCPU))));
    if (!made.is_floating_point() && !made.is_complex())
      made.zero_();
    return made;
  }

  /// Of the first operand that is more than a number; the shape functions' twins note theirs themselves.
  std::optional<c10::Device> ruleDevice() const {
    if (device_)
      return std::nullopt;
    std::optional<c10::Device> device;
    for (size_t i = 0; i < arguments_.size() && !device; ++i)
      if (facts_.arguments[i].role != ArgumentFacts::Role::Attr)
        for (const at::Tensor &tensor : tensorsIn(arguments_[i]))
          if (tensor.defined() && tensor.dim() > 0)
            device = tensor.device();
    return device;
  }

  const c10::OperatorHandle &op_;
  const OperatorFacts &facts_;
  torch::jit::Stack &stack_;
  torch::jit::Stack arguments_;
  std::optional<c10::Device> device_;
  std::unordered_map<const c10::StorageImpl *, c10::Storage> storages_;
  std::unordered_map<const c10::StorageImpl *, at::Tensor> originals_; // by the twins' storage
};

} // namespace

bool runBare(const c10::OperatorHandle &op, const OperatorFacts &facts, torch::jit::Stack &stack) {
  return BareRun(op, facts, stack).run();
}

} // namespace graphopt::capture
