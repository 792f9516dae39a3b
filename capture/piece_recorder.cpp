// Identity: the same TensorImpl, else the last value with the same memory and geometry. Autograd wraps what
// it saves in new TensorImpls over the same memory, and a saved value is always the last one written there,
// since autograd refuses stale ones.
#include "capture/piece_recorder.h"

#include "capture/bare_run.h"
#include "capture/tensor_access.h"
#include "capture/tensor_type.h"
#include "capture/to_attr.h"
#include "ir/op_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace graphopt::capture {
namespace {

bool isScalarLike(const at::Tensor &tensor) {
  const at::ScalarType type = tensor.scalar_type();
  return tensor.dim() == 0 && tensor.device().is_cpu() && tensor.layout() == c10::kStrided &&
         (type == at::kDouble || type == at::kFloat || type == at::kHalf || type == at::kBFloat16 ||
          c10::isIntegralType(type, true) || type == at::kComplexDouble || type == at::kComplexFloat);
}

bool isMask(const at::Tensor &tensor) {
  return tensor.defined() && (tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte);
}

/// Numbers that such an operator returns follow from sizes: the lengths of sequences, a workspace.
bool hasNumbersOfSizes(std::string_view base) {
  return base.starts_with("_scaled_dot_product_") || base.starts_with("_flash_attention") ||
         base.starts_with("_efficient_attention") || base.starts_with("_cudnn_attention");
}

} // namespace

PieceRecorder::PieceRecorder(const ir::Device &device, bool isBare) : device_(device), isBare_(isBare) {
  graph_.device = device;
}

// ---- values

PieceRecorder::Geometry PieceRecorder::geometryOf(const at::Tensor &tensor) {
  Geometry key{reinterpret_cast<int64_t>(storageOf(*tensor.unsafeGetTensorImpl())), tensor.storage_offset(),
               static_cast<int64_t>(tensor.scalar_type()), tensor.is_conj(), tensor.is_neg()};
  key.insert(key.end(), tensor.sizes().begin(), tensor.sizes().end());
  key.insert(key.end(), tensor.strides().begin(), tensor.strides().end());
  return key;
}

int PieceRecorder::add(const at::Tensor &tensor) {
  if (std::string why = unsupportedLayout(tensor); !why.empty())
    throw Opaque("a tensor inside it has no plain memory: " + why);
  const int id = static_cast<int>(entries_.size());
  entries_.push_back({tensor, "", false});
  values_.push_back(nullptr);
  byImpl_[tensor.unsafeGetTensorImpl()] = id;
  byGeometry_[geometryOf(tensor)] = id;
  return id;
}

std::optional<int> PieceRecorder::find(const at::Tensor &tensor) {
  if (auto known = byImpl_.find(tensor.unsafeGetTensorImpl()); known != byImpl_.end())
    return known->second;
  if (!unsupportedLayout(tensor).empty())
    return std::nullopt;
  auto same = byGeometry_.find(geometryOf(tensor));
  if (same == byGeometry_.end())
    return std::nullopt;
  byImpl_[tensor.unsafeGetTensorImpl()] = same->second;
  entries_.push_back({tensor, "", false}); // held under a number that nobody uses
  values_.push_back(nullptr);
  return same->second;
}

int PieceRecorder::idOf(const at::Tensor &tensor) {
  if (std::optional<int> known = find(tensor))
    return *known;
  if (!isScalarLike(tensor))
    throw Opaque(fmt::format("it uses a tensor that no operator made ({})", ir::toString(typeOf(tensor))));
  const int id = add(tensor);
  entries_[static_cast<size_t>(id)].isConstant = true;
  return id;
}

ir::Type PieceRecorder::typeOf(const at::Tensor &tensor) const {
  return relativeTo(device_, fullTypeOf(tensor));
}

void PieceRecorder::declareConstant(int id) {
  const auto index = static_cast<size_t>(id);
  const at::Tensor &tensor = entries_[index].tensor;
  ir::Type type = typeOf(tensor);
  values_[index] = graph_.declare(ir::Value::Kind::Const, graph_.freshName("k"), std::move(type));
  values_[index]->content = contentOf(tensor);
}

ir::Value *PieceRecorder::declare(int id) {
  const auto index = static_cast<size_t>(id);
  const Entry &entry = entries_[index];
  if (entry.isConstant) {
    declareConstant(id);
    return values_[index];
  }
  std::string name = entry.name.empty() ? fmt::format("v{}", id) : entry.name;
  return values_[index] = graph_.declare(ir::Value::Kind::Input, name, typeOf(entry.tensor));
}

ir::Value *PieceRecorder::valueOf(const at::Tensor &tensor) {
  const int id = idOf(tensor);
  ir::Value *value = values_[static_cast<size_t>(id)];
  return value ? value : declare(id);
}

void PieceRecorder::addInput(const at::Tensor &tensor) {
  ++inputs_;
  declare(add(tensor));
}

void PieceRecorder::addNamed(const at::Tensor &tensor, const std::string &name) {
  entries_[static_cast<size_t>(add(tensor))].name = name;
}

// ---- the two graphs

ir::Graph PieceRecorder::finishForward(const std::vector<at::Tensor> &results) {
  std::vector<ir::Operand> operands;
  for (const at::Tensor &result : results)
    operands.push_back(result.defined() ? ir::Operand::of(valueOf(result)) : ir::Operand::none());
  forwardValues_ = entries_.size();
  for (size_t id = inputs_; id < forwardValues_; ++id)
    operands.push_back(values_[id] && values_[id]->isResult() ? ir::Operand::of(values_[id])
                                                              : ir::Operand::none());
  graph_.append(graph_.body(), ir::Op::Kind::Return, "", std::move(operands));
  return std::move(graph_);
}

void PieceRecorder::beginBackward() {
  graph_ = ir::Graph("backward");
  graph_.device = device_;
  std::fill(values_.begin(), values_.end(), nullptr);
  isBackward_ = true;
}

ir::Graph PieceRecorder::finishBackward(const std::vector<at::Tensor> &gradients) {
  std::vector<ir::Operand> operands;
  for (const at::Tensor &gradient : gradients)
    operands.push_back(gradient.defined() ? ir::Operand::of(valueOf(gradient)) : ir::Operand::none());
  graph_.append(graph_.body(), ir::Op::Kind::Return, "", std::move(operands));
  return std::move(graph_);
}

// ---- one call

void PieceRecorder::checkMayBeTaken(const OperatorFacts &facts, const torch::jit::Stack &stack) const {
  if (!facts.name.starts_with("aten."))
    throw Opaque(fmt::format("it calls {}, which is no operator of LibTorch's own", facts.name));
  const ir::AtenRow *row = ir::findAten(facts.name);
  const bool readsByTable = row && (row->effects & ir::kHostRead) && row->when.empty(); // _unique has no tag
  if (facts.readsData || facts.sizesFromData || readsByTable)
    throw Opaque(fmt::format("{} decides by the data", facts.name));
  if (facts.hasPlainResult && !hasNumbersOfSizes(facts.base))
    throw Opaque(fmt::format("{} gives the host numbers", facts.name));
  const c10::IValue *values = stack.data() + (stack.size() - facts.arguments.size());
  for (size_t i = 0; i < facts.arguments.size(); ++i) {
    const bool isIndices =
        facts.base.find("index") != std::string::npos && facts.arguments[i].name == "indices";
    if (values[i].isGenerator())
      throw Opaque("it draws from a generator of its own");
    if (isIndices && values[i].isList() && !fillsThroughMask(facts, values))
      for (const c10::IValue &item : values[i].toListRef())
        if (item.isTensor() && isMask(item.toTensor()))
          throw Opaque(fmt::format("{} with a mask decides by the data", facts.name));
  }
}

ir::Operand PieceRecorder::operandOf(const at::Tensor &tensor, bool isWritten) {
  if (!tensor.defined())
    return ir::Operand::none();
  operands_.push_back(tensor);
  return ir::Operand::of(valueOf(tensor), isWritten ? ir::Mark::Write : ir::Mark::None);
}

ir::Operand PieceRecorder::operandOf(const c10::IValue &value, const ArgumentFacts &argument) {
  if (value.isNone())
    return ir::Operand::none();
  if (value.isTensor())
    return operandOf(value.toTensor(), argument.isWritten);
  std::vector<ir::Operand> items;
  for (const c10::IValue &item : value.toListRef())
    items.push_back(item.isNone() ? ir::Operand::none() : operandOf(item.toTensor(), argument.isWritten));
  return ir::Operand::list(std::move(items));
}

ir::Op *PieceRecorder::appendCall(const OperatorFacts &facts, const torch::jit::Stack &stack) {
  const c10::IValue *values = stack.data() + (stack.size() - facts.arguments.size());
  std::vector<ir::Operand> operands;
  std::vector<ir::NamedAttr> attrs;
  operands_.clear();
  for (size_t i = 0; i < facts.arguments.size(); ++i) {
    const ArgumentFacts &argument = facts.arguments[i];
    if (argument.role != ArgumentFacts::Role::Attr) {
      operands.push_back(operandOf(values[i], argument));
      continue;
    }
    ir::Attr attr = toAttr(values[i], *argument.type);
    if (!argument.defaultValue || !(*argument.defaultValue == attr))
      attrs.push_back({argument.name, std::move(attr)});
  }
  return graph_.append(graph_.body(), ir::Op::Kind::Call, facts.name, std::move(operands), std::move(attrs));
}

void PieceRecorder::run(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                        torch::jit::Stack *stack) {
  if (isBare_ && runBare(op, facts, *stack))
    return;
  const bool isView = !facts.isWrite && std::ranges::any_of(facts.arguments, &ArgumentFacts::isAliased);
  if (isBare_ && !isView)
    kernels_.push_back(facts.name);
  op.redispatchBoxed(keys, stack);
}

/// The operands whose memory the result shares.
void PieceRecorder::markAliases(ir::Op *op, const at::Tensor &result) {
  size_t next = 0;
  std::function<void(std::vector<ir::Operand> &)> mark = [&](std::vector<ir::Operand> &operands) {
    for (ir::Operand &operand : operands) {
      if (operand.kind == ir::Operand::Kind::List)
        mark(operand.items);
      if (!operand.isValue())
        continue;
      const at::Tensor &tensor = operands_[next++];
      const bool shares =
          storageOf(*tensor.unsafeGetTensorImpl()) == storageOf(*result.unsafeGetTensorImpl());
      if (shares && operand.mark == ir::Mark::None)
        operand.mark = ir::Mark::Alias;
    }
  };
  std::vector<ir::Operand> operands = op->operands();
  mark(operands);
  op->setOperands(std::move(operands));
}

void PieceRecorder::takeResult(ir::Op *op, const at::Tensor &tensor) {
  if (!tensor.defined()) {
    graph_.addResult(op, "none", ir::Type::scalar(ir::Type::Kind::None));
    return;
  }
  if (std::any_of(operands_.begin(), operands_.end(), [&](const at::Tensor &t) { return t.is_same(tensor); }))
    return; // an argument, written and returned
  const int id = add(tensor);
  const std::string name = isBackward_ ? "d" : "t";
  values_[static_cast<size_t>(id)] = graph_.addResult(op, name, typeOf(tensor));
  markAliases(op, tensor);
}

void PieceRecorder::takeResults(ir::Op *op, const OperatorFacts &facts, const torch::jit::Stack &stack) {
  const c10::IValue *values = stack.data() + (stack.size() - facts.returns);
  for (size_t i = 0; i < facts.returns; ++i) {
    if (values[i].isTensor())
      takeResult(op, values[i].toTensor());
    else if (values[i].isTensorList())
      for (const at::Tensor &item : values[i].toTensorVector())
        takeResult(op, item);
    else if (values[i].isInt())
      graph_.addResult(op, "n", ir::Type::scalar(ir::Type::Kind::Int));
    else if (values[i].isNone())
      takeResult(op, at::Tensor());
    else
      throw Opaque(fmt::format("{} gives the host a value that is no tensor", facts.name));
  }
}

/// A view in place (as_strided_, transpose_): the same tensor is another value from here on.
void PieceRecorder::rebind(ir::Op *op, const OperatorFacts &facts, const at::Tensor &tensor) {
  op->name = facts.viewName;
  std::vector<ir::Operand> operands = op->operands();
  operands[0].mark = ir::Mark::Alias;
  op->setOperands(std::move(operands));
  values_[static_cast<size_t>(add(tensor))] = graph_.addResult(op, isBackward_ ? "d" : "t", typeOf(tensor));
}

void PieceRecorder::onCall(const c10::OperatorHandle &op, c10::DispatchKeySet keys,
                           torch::jit::Stack *stack) {
  const OperatorFacts &facts = factsOf(op);
  if (facts.isMetadata)
    return op.redispatchBoxed(keys, stack);
  checkMayBeTaken(facts, *stack);
  ir::Op *call = appendCall(facts, *stack);
  run(op, facts, keys, stack);
  if (!facts.viewName.empty())
    return rebind(call, facts, operands_.at(0));
  takeResults(call, facts, *stack);
  if (call->results().empty() && !facts.isWrite) // it gave back its argument
    graph_.erase(call);
}

} // namespace graphopt::capture
