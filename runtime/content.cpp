// Values are made on the CPU in C order and then copied into the layout asked for, so a layout never changes
// them.
#include "runtime/content.h"

#include "graphopt/error.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace graphopt::runtime {
namespace {
using ir::Attr;
using ir::Type;

int64_t valueOf(const ir::Dim &dim, const SymValues &syms) {
  auto value = evaluate(dim, syms);
  if (!value)
    userError(
        fmt::format("size {} has no value: give one with --sym, or an input that decides it", toString(dim)));
  return *value;
}

/// Appends the numbers of nested lists in C order; the nesting must have exactly the sizes.
void flatten(const Attr &content, at::IntArrayRef sizes, const SymValues &syms,
             std::vector<c10::Scalar> &out) {
  if (sizes.empty()) {
    auto scalar = toScalar(content, syms);
    if (!scalar)
      userError(fmt::format("constant element {} is no number", toString(content)));
    out.push_back(*scalar);
    return;
  }
  if (!content.isList() || static_cast<int64_t>(content.items().size()) != sizes[0])
    userError(fmt::format("constant {} does not have the shape of its type: expected a list of {} elements",
                          toString(content), sizes[0]));
  for (const Attr &item : content.items())
    flatten(item, sizes.slice(1), syms, out);
}

/// A C-order CPU tensor wide enough to hold every number exactly before the cast to the real dtype.
at::Tensor wideTensor(const std::vector<c10::Scalar> &numbers, at::IntArrayRef sizes, at::ScalarType dtype) {
  at::ScalarType wide = at::kLong;
  if (at::isComplexType(dtype))
    wide = at::kComplexDouble;
  else if (at::isFloatingType(dtype))
    wide = at::kDouble;
  at::Tensor tensor = at::empty(sizes, at::TensorOptions().dtype(wide));
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (wide == at::kLong)
      tensor.mutable_data_ptr<int64_t>()[i] = numbers[i].toLong();
    else if (wide == at::kDouble)
      tensor.mutable_data_ptr<double>()[i] = numbers[i].toDouble();
    else
      tensor.mutable_data_ptr<c10::complex<double>>()[i] = numbers[i].toComplexDouble();
  }
  return tensor;
}

/// A dim of stride 0 repeats one element, which can be written only once.
at::Tensor copyWithStrides(at::Tensor values, const std::vector<ir::Dim> &strides, const SymValues &syms,
                           const at::TensorOptions &options) {
  std::vector<int64_t> numbers, sizes = values.sizes().vec();
  for (size_t d = 0; d < strides.size(); ++d) {
    numbers.push_back(valueOf(strides[d], syms));
    if (numbers[d] == 0 && sizes[d] > 1)
      values = values.narrow(static_cast<int64_t>(d), 0, 1);
  }
  at::Tensor copy = at::empty_strided(values.sizes(), numbers, options).copy_(values);
  return copy.sizes() == sizes ? copy : copy.expand(sizes);
}

Type tensorTypeOf(const Type &type) {
  switch (type.kind) {
  case Type::Kind::Tensor:
    return type;
  case Type::Kind::Int:
    return Type::tensor(at::kLong, {});
  case Type::Kind::Float:
    return Type::tensor(at::kDouble, {});
  case Type::Kind::Bool:
    return Type::tensor(at::kBool, {});
  case Type::Kind::List:
  case Type::Kind::None:
    break;
  }
  userError(fmt::format("a value of type {} is no tensor and cannot be supplied as one", toString(type)));
}

Attr nested(const at::Tensor &flat, at::IntArrayRef sizes, int64_t &next) {
  if (sizes.empty())
    return toAttr(flat[next++].item());
  std::vector<Attr> items;
  for (int64_t i = 0; i < sizes[0]; ++i)
    items.push_back(nested(flat, sizes.slice(1), next));
  return Attr::list(std::move(items));
}

} // namespace

c10::Device deviceOf(const Type &type, const ir::Device &graphDevice) {
  return c10::Device(ir::toString(type.device.value_or(graphDevice)));
}

std::vector<int64_t> sizesOf(const Type &type, const SymValues &syms) {
  std::vector<int64_t> sizes;
  for (const ir::Dim &dim : type.sizes)
    sizes.push_back(valueOf(dim, syms));
  return sizes;
}

at::Tensor inLayout(const at::Tensor &values, const Type &type, const SymValues &syms) {
  at::TensorOptions options = at::TensorOptions().dtype(type.dtype).device(deviceOf(type, {}));
  at::Tensor physical = type.conj ? values.conj().resolve_conj() : values;
  physical = type.neg ? physical.neg() : physical;
  at::Tensor result = type.strides ? copyWithStrides(physical, *type.strides, syms, options)
                                   : at::empty(values.sizes(), options).copy_(physical);
  result = type.conj ? result.conj() : result;
  result = type.neg ? result._neg_view() : result;
  if (type.wrapped)
    result.unsafeGetTensorImpl()->set_wrapped_number(true);
  return result;
}

at::Tensor tensorFromContent(const Type &given, const Attr &content, const SymValues &syms) {
  Type type = tensorTypeOf(given);
  std::vector<int64_t> sizes = sizesOf(type, syms);
  std::vector<c10::Scalar> numbers;
  flatten(content, sizes, syms, numbers);
  return inLayout(wideTensor(numbers, sizes, type.dtype), type, syms);
}

Attr contentOf(const at::Tensor &tensor) {
  at::Tensor values = tensor.detach().to(at::kCPU).resolve_conj().resolve_neg();
  at::ScalarType dtype = values.scalar_type();
  if (at::isFloatingType(dtype))
    values = values.to(at::kDouble);
  else if (at::isComplexType(dtype))
    values = values.to(at::kComplexDouble);
  at::Tensor flat = values.contiguous().view({-1});
  int64_t next = 0;
  return nested(flat, values.sizes(), next);
}

at::Tensor makeInput(const Type &given, const InputSpec &spec, const SymValues &syms) {
  Type type = tensorTypeOf(given);
  std::vector<int64_t> sizes = sizesOf(type, syms);
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(spec.seed);
  at::Tensor values;
  if (at::isComplexType(type.dtype))
    values = at::randn(sizes, generator, at::TensorOptions().dtype(at::kComplexDouble));
  else if (at::isFloatingType(type.dtype))
    values = at::randn(sizes, generator, at::TensorOptions().dtype(at::kDouble));
  else if (type.dtype == at::kBool)
    values = at::randint(0, 2, sizes, generator, at::TensorOptions().dtype(at::kLong));
  else
    values = at::randint(spec.low, spec.high, sizes, generator, at::TensorOptions().dtype(at::kLong));
  return inLayout(values, type, syms);
}

} // namespace graphopt::runtime
