// Recording makes a type for each result, and guards compare hundreds at each call: both avoid symbolic
// arithmetic.
#include "capture/tensor_type.h"

#include "capture/capture.h"
#include "capture/to_attr.h"

namespace graphopt::capture {
namespace {

std::vector<ir::Dim> toDims(c10::IntArrayRef values) { return {values.begin(), values.end()}; }

/// Whether the strides are those that a contiguous tensor of these sizes gets.
bool hasDefaultStrides(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (strides[i] != expected)
      return false;
    expected *= std::max<int64_t>(sizes[i], 1);
  }
  return true;
}

bool isStrided(const at::Tensor &tensor) { return tensor.layout() == c10::kStrided && !tensor.is_nested(); }

bool equalDims(const std::vector<ir::Dim> &dims, c10::IntArrayRef values) {
  if (dims.size() != values.size())
    return false;
  for (size_t i = 0; i < dims.size(); ++i)
    if (!dims[i].isConstant() || dims[i].constantPart() != values[i])
      return false;
  return true;
}

bool equalDevice(const ir::Device &device, const c10::Device &actual) {
  if (actual.is_cpu())
    return device.isCpu();
  return device == toDevice(actual);
}

} // namespace

ir::Type fullTypeOf(const at::Tensor &tensor) {
  ir::Type type;
  type.dtype = tensor.scalar_type();
  type.device = toDevice(tensor.device());
  type.wrapped = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  if (tensor.is_nested())
    return type;
  type.sizes = toDims(tensor.sizes());
  if (!isStrided(tensor))
    return type;
  if (!hasDefaultStrides(tensor.sizes(), tensor.strides()))
    type.strides = toDims(tensor.strides());
  type.conj = tensor.is_conj();
  type.neg = tensor.is_neg();
  return type;
}

ir::Type relativeTo(const ir::Device &graphDevice, ir::Type type) {
  if (type.device == graphDevice)
    type.device.reset();
  return type;
}

ir::Type typeOf(const at::Tensor &tensor, const ir::Device &graphDevice) {
  ir::Type type = relativeTo(graphDevice, fullTypeOf(tensor));
  type.grad = tensor.requires_grad();
  return type;
}

bool hasGeometry(const ir::Type &type, const at::Tensor &tensor) {
  if (type.dtype != tensor.scalar_type() || tensor.is_nested() || !equalDims(type.sizes, tensor.sizes()))
    return false;
  if (!isStrided(tensor))
    return !type.strides;
  bool equalStrides = type.strides ? equalDims(*type.strides, tensor.strides())
                                   : hasDefaultStrides(tensor.sizes(), tensor.strides());
  return equalStrides && type.conj == tensor.is_conj() && type.neg == tensor.is_neg();
}

bool hasType(const ir::Type &type, const at::Tensor &tensor, const ir::Device &graphDevice) {
  return tensor.defined() && hasGeometry(type, tensor) && isStrided(tensor) &&
         type.wrapped == tensor.unsafeGetTensorImpl()->is_wrapped_number() &&
         type.grad == tensor.requires_grad() &&
         equalDevice(type.device ? *type.device : graphDevice, tensor.device());
}

std::string unsupportedLayout(const at::Tensor &tensor) {
  if (tensor.is_nested())
    return "nested tensor";
  if (tensor.layout() != c10::kStrided)
    return fmt::format(
        "layout {}",
        toAttr(c10::IValue(static_cast<int64_t>(tensor.layout())), *c10::LayoutType::get()).text());
  if (tensor.is_quantized())
    return "quantized tensor";
  return tensor.has_storage() ? "" : "tensor without storage";
}

} // namespace graphopt::capture
