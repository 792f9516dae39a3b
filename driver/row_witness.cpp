// Writes are looked for in the second run alone, whose memory is nobody else's. Answers that differ are held
// against an operator only on the CPU: elsewhere kernels may add, and number, in any order.
#include "driver/row_witness.h"

#include "driver/same_values.h"

#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

namespace graphopt::driver {
namespace {

void collect(const c10::IValue &value, std::vector<at::Tensor> &tensors) {
  if (value.isTensor()) {
    tensors.push_back(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue &item : value.toListRef())
      collect(item, tensors);
  }
}

std::vector<at::Tensor> tensorsIn(const torch::jit::Stack &stack) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue &value : stack)
    collect(value, tensors);
  return tensors;
}

/// Memory without contents holds whatever it held; two runs are compared with zeros in it.
void clear(const at::Tensor &tensor) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.storage().nbytes() == 0)
    return;
  const c10::InferenceMode plain(false);
  const at::NoGradGuard noGrad;
  const auto size = static_cast<int64_t>(tensor.storage().nbytes());
  at::empty({0}, at::TensorOptions().dtype(at::kByte).device(tensor.device()))
      .set_(tensor.storage(), 0, {size}, {1})
      .zero_();
}

void clearUninitialized(const capture::RowInfo &info, const torch::jit::Stack &results) {
  if (info.facts->isUninitialized)
    for (const at::Tensor &tensor : tensorsIn(results))
      clear(tensor);
}

/// Empty on either side: not remembered.
Nearness farthest(const std::vector<at::Tensor> &a, const std::vector<at::Tensor> &b) {
  Nearness result = Nearness::Same;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i].defined() && b[i].defined())
      result = std::max(result, nearness(a[i], b[i]));
  return result;
}

} // namespace

std::vector<at::Tensor> RowWitness::remember(const std::vector<at::Tensor> &tensors, bool &isWhole) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor &tensor : tensors) {
    const size_t bytes = tensor.defined() ? tensor.numel() * tensor.element_size() : 0;
    const bool fits = bytes <= budget_;
    isWhole &= fits;
    budget_ -= fits ? bytes : 0;
    copies.push_back(fits && tensor.defined() && !tensor.is_meta() ? contentsOf(tensor) : at::Tensor());
  }
  return copies;
}

void RowWitness::accuse(size_t row, const std::string &text) {
  if (liar_)
    return;
  const capture::RowInfo &info = segment_.infos[row];
  liar_ = info.facts;
  text_ = fmt::format("operator {}{}: {}", info.facts->name, info.module.empty() ? "" : " at " + info.module,
                      text);
}

void RowWitness::First::before(size_t row, const torch::jit::Stack &arguments) {
  if (!witness.watches(row))
    return;
  Remembered &seen = witness.rows_[row];
  seen.operands = witness.remember(tensorsIn(arguments), seen.isWhole);
}

void RowWitness::First::after(size_t row, const torch::jit::Stack &results) {
  clearUninitialized(witness.segment_.infos[row], results);
  if (!witness.watches(row))
    return;
  Remembered &seen = witness.rows_[row];
  seen.results = witness.remember(tensorsIn(results), seen.isWhole);
}

void RowWitness::Second::before(size_t row, const torch::jit::Stack &arguments) {
  if (!witness.watches(row))
    return;
  held = tensorsIn(arguments);
  bool isWhole = true;
  copies = witness.remember(held, isWhole);
  Remembered &seen = witness.rows_[row];
  seen.askedAlike = seen.isWhole && isWhole && farthest(seen.operands, copies) == Nearness::Same;
}

void RowWitness::Second::after(size_t row, const torch::jit::Stack &results) {
  clearUninitialized(witness.segment_.infos[row], results);
  if (!witness.watches(row))
    return;
  witness.checkOperands(row);
  witness.checkResults(row, tensorsIn(results));
  held.clear();
  copies.clear();
}

/// Operands that share memory with a written one are written too.
void RowWitness::checkOperands(size_t row) {
  const capture::RowInfo &info = segment_.infos[row];
  std::vector<capture::ValueId> values;
  for (size_t a = 0; a < info.operands.size(); ++a)
    if (info.facts->arguments[a].role != capture::ArgumentFacts::Role::Attr)
      values.insert(values.end(), info.operands[a].begin(), info.operands[a].end());
  auto isWritten = [&](capture::ValueId value) {
    return std::ranges::any_of(info.written, [&](capture::ValueId written) {
      return segment_.values[written].family == segment_.values[value].family;
    });
  };
  std::erase(values, 0); // undefined: no tensor on the stack, or an undefined one
  std::vector<at::Tensor> now, before;
  for (size_t i = 0; i < second_.held.size(); ++i)
    if (second_.held[i].defined()) {
      now.push_back(second_.held[i]);
      before.push_back(second_.copies[i]);
    }
  for (size_t i = 0; i < std::min(now.size(), values.size()); ++i)
    if (before[i].defined() && !isWritten(values[i]) && nearness(before[i], now[i]) != Nearness::Same)
      return accuse(row, "it writes an argument that its schema does not name as written");
}

void RowWitness::checkResults(size_t row, const std::vector<at::Tensor> &results) {
  const Remembered &seen = rows_[row];
  if (!seen.askedAlike)
    return;
  for (size_t i = 0; i < std::min(seen.results.size(), results.size()); ++i)
    if (seen.results[i].defined() && results[i].defined() && results[i].is_cpu() &&
        nearness(seen.results[i], results[i]) == Nearness::Apart)
      return accuse(row, "asked twice with the same arguments, it answers differently");
}

} // namespace graphopt::driver
