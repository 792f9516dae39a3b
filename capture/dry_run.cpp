// Three ways through: a view runs, it costs nothing and its memory is its base's; what is small and wholly
// known runs, unless it would write what was there before; for all else results are made up, and their memory
// refuses to be looked at.
#include "capture/dry_run.h"

#include "capture/bare_run.h"
#include "capture/synthetic.h"
#include "capture/tensor_access.h"
#include "capture/tensor_type.h"

#include <fmt/format.h>

#include <algorithm>

namespace graphopt::capture {
namespace {

constexpr const char *kNoContents =
    "a dry capture computes nothing: the program looks at contents that follow from its "
    "arguments or parameters; record a real call";
/// Of operands and results: as much is computed where nothing is missing.
constexpr int64_t kSmall = 1 << 16;

template <class F> void forEachTensor(const c10::IValue &value, F &&f) {
  if (value.isTensor() && value.toTensor().defined())
    f(value.toTensor());
  if (value.isList())
    for (const c10::IValue &item : value.toListRef())
      forEachTensor(item, f);
}

bool isView(const OperatorFacts &facts) {
  return !facts.isWrite && std::ranges::any_of(facts.arguments, &ArgumentFacts::isAliased);
}

/// Whoever looks at its contents from here on gets an error.
void seal(const at::Tensor &tensor) {
  tensor.storage().unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(kNoContents);
}

/// How much a factory makes, by its list of sizes.
int64_t elementsAskedFor(const OperatorFacts &facts, const c10::IValue *arguments) {
  int64_t most = 0;
  for (size_t i = 0; i < facts.arguments.size(); ++i) {
    if (arguments[i].isInt() && (facts.arguments[i].name == "end" || facts.arguments[i].name == "n" ||
                                 facts.arguments[i].name == "m" || facts.arguments[i].name == "steps"))
      most = std::max(most, arguments[i].toInt());
    if (!arguments[i].isIntList())
      continue;
    int64_t elements = 1;
    for (const int64_t size : arguments[i].toIntVector())
      elements *= std::max<int64_t>(size, 1);
    most = std::max(most, elements);
  }
  return most;
}

} // namespace

DryRun::DryRun(c10::Device device) : generators_({device}) { interception_.emplace(*this); }

DryRun::~DryRun() {
  interception_.reset();
  generators_.restore();
}

std::vector<DryRun::Operand> DryRun::operandsOf(const OperatorFacts &facts,
                                                const torch::jit::Stack &stack) const {
  std::vector<Operand> operands;
  const c10::IValue *values = stack.data() + (stack.size() - facts.arguments.size());
  for (size_t i = 0; i < facts.arguments.size(); ++i)
    forEachTensor(values[i], [&](const at::Tensor &tensor) {
      operands.push_back({tensor, facts.arguments[i].isWritten});
    });
  return operands;
}

bool DryRun::isMissing(const at::Tensor &tensor) const {
  auto known = known_.find(storageOf(*tensor.unsafeGetTensorImpl()));
  return known != known_.end() && known->second.contents == Contents::Missing;
}

bool DryRun::isOwn(const at::Tensor &tensor) const {
  auto known = known_.find(storageOf(*tensor.unsafeGetTensorImpl()));
  return known != known_.end() && known->second.contents == Contents::Own;
}

/// Changes how a tensor of this run's lies over its memory, and no memory.
bool DryRun::isViewInPlace(const OperatorFacts &facts, const std::vector<Operand> &operands) const {
  return !facts.viewName.empty() && std::ranges::all_of(operands, [&](const Operand &operand) {
    auto known = known_.find(storageOf(*operand.tensor.unsafeGetTensorImpl()));
    return !operand.isWritten || (known != known_.end() && known->second.isOurs);
  });
}

/// Whether nothing is missing for it, it is cheap, and it changes nothing but what this run made.
bool DryRun::isWorthRunning(const OperatorFacts &facts, const std::vector<Operand> &operands,
                            const torch::jit::Stack &stack) const {
  if (facts.isRandom || facts.hidesWrites)
    return false;
  const bool mayReadAll = facts.readsData || facts.sizesFromData || facts.hasPlainResult;
  int64_t elements = operands.empty() && !facts.isUninitialized
                         ? elementsAskedFor(facts, stack.data() + (stack.size() - facts.arguments.size()))
                         : 0;
  for (const Operand &operand : operands) {
    if (isMissing(operand.tensor) || (operand.isWritten && !isOwn(operand.tensor)))
      return false;
    elements = std::max(elements, operand.tensor.numel());
  }
  return mayReadAll || elements <= kSmall;
}

void DryRun::onCall(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  const OperatorFacts &facts = factsOf(op);
  if (facts.isMetadata)
    return op.redispatchBoxed(keys, stack);
  const std::vector<Operand> operands = operandsOf(facts, *stack);
  const bool isRun =
      isView(facts) || isViewInPlace(facts, operands) || isWorthRunning(facts, operands, *stack);
  if (isRun)
    op.redispatchBoxed(keys, stack);
  else
    runWithout(op, facts, keys, *stack);
  note(operands, facts, *stack, isRun ? Contents::Own : Contents::Missing);
}

/// Where LibTorch has no way to tell what comes out, the kernel runs on operands made up for it.
void DryRun::runWithout(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                        torch::jit::Stack &stack) {
  const bool asksForContents = facts.readsData || facts.sizesFromData || facts.hasPlainResult;
  TORCH_CHECK(!asksForContents, facts.name, ": ", kNoContents);
  if (runBare(op, facts, stack))
    return;
  TORCH_CHECK(!facts.isWrite, "a dry capture cannot tell what ", facts.name, " writes; record a real call");
  c10::IValue *values = stack.data() + (stack.size() - facts.arguments.size());
  auto madeUp = [](const at::Tensor &tensor) {
    return synthetic(fullTypeOf(tensor), ir::Device(), capture::Contents::Plain);
  };
  for (size_t i = 0; i < facts.arguments.size(); ++i) {
    if (values[i].isTensor() && values[i].toTensor().defined())
      values[i] = madeUp(values[i].toTensor());
    TORCH_CHECK(!values[i].isList() || facts.arguments[i].role == ArgumentFacts::Role::Attr,
                "a dry capture cannot tell what ", facts.name, " gives; record a real call");
  }
  op.redispatchBoxed(keys, &stack);
}

void DryRun::note(const std::vector<Operand> &operands, const OperatorFacts &facts,
                  const torch::jit::Stack &stack, Contents contents) {
  for (const Operand &operand : operands)
    if (contents == Contents::Missing && (operand.isWritten || facts.hidesWrites))
      noteLost(operand.tensor);
  for (const c10::IValue &value : torch::jit::last(stack, facts.returns))
    forEachTensor(value, [&](const at::Tensor &tensor) { noteResult(tensor, operands, contents); });
}

/// What was there before keeps its contents: they are not what the program would find, and stay readable.
void DryRun::noteLost(const at::Tensor &tensor) {
  const auto [known, isNew] = known_.try_emplace(storageOf(*tensor.unsafeGetTensorImpl()), tensor.storage());
  known->second.isOurs &= !isNew;
  known->second.contents = Contents::Missing;
  if (known->second.isOurs)
    seal(tensor);
}

/// Memory of an operand is what it was.
void DryRun::noteResult(const at::Tensor &tensor, const std::vector<Operand> &operands, Contents contents) {
  if (!tensor.has_storage())
    return;
  const c10::StorageImpl *memory = storageOf(*tensor.unsafeGetTensorImpl());
  const bool isOperands = std::ranges::any_of(operands, [&](const Operand &operand) {
    return operand.tensor.has_storage() && storageOf(*operand.tensor.unsafeGetTensorImpl()) == memory;
  });
  if (isOperands)
    return;
  known_.try_emplace(memory, tensor.storage()).first->second.contents = contents;
  if (contents == Contents::Missing)
    seal(tensor);
}

} // namespace graphopt::capture
