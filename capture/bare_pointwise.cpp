// One operator of LibTorch's with as many operands, which has a shape function, stands for all of them: sizes
// and strides of the result depend on those of the operands in their order, and on nothing else.
#include "capture/bare_arguments.h"

#include <ATen/native/TypeProperties.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/neg.h>

#include <unordered_map>

namespace graphopt::capture {
namespace {

enum class DtypeOf { First, Real, Bool, Both }; // Both: of the last two operands, promoted

struct Pointwise {
  std::vector<std::string_view> operands;
  DtypeOf dtype = DtypeOf::First;
};

/// By full name.
const std::unordered_map<std::string_view, Pointwise> &table() {
  static const auto &rows = *new std::unordered_map<std::string_view, Pointwise>{
      {"aten.abs", {{"self"}, DtypeOf::Real}},
      {"aten.hardtanh", {{"self"}}},
      {"aten.hardtanh_backward", {{"grad_output", "self"}}},
      {"aten.isnan", {{"self"}, DtypeOf::Bool}},
      {"aten.logical_and", {{"self", "other"}, DtypeOf::Bool}},
      {"aten.logical_not", {{"self"}, DtypeOf::Bool}},
      {"aten.logical_or", {{"self", "other"}, DtypeOf::Bool}},
      {"aten.logical_xor", {{"self", "other"}, DtypeOf::Bool}},
      {"aten.native_dropout_backward", {{"grad_output", "mask"}}},
      {"aten.where.self", {{"condition", "self", "other"}, DtypeOf::Both}},
  };
  return rows;
}

at::Tensor twin(const at::Tensor &tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), at::TensorOptions(c10::kMeta).dtype(at::kFloat));
}

at::Tensor resultOf(const std::vector<at::Tensor> &twins) {
  return twins.size() == 1   ? at::neg(twins[0])
         : twins.size() == 2 ? at::add(twins[0], twins[1])
                             : at::addcmul(twins[0], twins[1], twins[2]);
}

at::ScalarType dtypeOf(DtypeOf how, const std::vector<at::Tensor> &operands) {
  if (how == DtypeOf::Bool)
    return at::kBool;
  if (how == DtypeOf::Both)
    return at::result_type(operands[operands.size() - 2], operands.back());
  return how == DtypeOf::Real ? c10::toRealValueType(operands[0].scalar_type()) : operands[0].scalar_type();
}

} // namespace

Results iteratorResults(const OperatorFacts &facts, const In &in) {
  auto row = table().find(facts.name);
  if (row == table().end())
    return std::nullopt;
  std::vector<at::Tensor> operands, twins;
  for (std::string_view name : row->second.operands) {
    operands.push_back(in.tensor(name));
    if (!operands.back().defined() || operands.back().layout() != c10::kStrided)
      return std::nullopt;
    twins.push_back(twin(operands.back()));
  }
  try {
    const at::Tensor result = resultOf(twins);
    return one(BareResult{result.sizes().vec(), result.strides().vec(), dtypeOf(row->second.dtype, operands),
                          false});
  } catch (const c10::Error &) { // sizes that do not go together: the operator will say so itself
    return std::nullopt;
  }
}

} // namespace graphopt::capture
