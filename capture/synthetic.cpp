// Floats between 0.5 and 1 are in the domain of nearly every operator: logarithms, roots, arcs,
// probabilities.
#include "capture/synthetic.h"

#include "capture/plain_dispatch.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <graphopt/error.h>

namespace graphopt::capture {
namespace {

std::vector<int64_t> known(const std::vector<ir::Dim> &dims) {
  std::vector<int64_t> values;
  for (const ir::Dim &dim : dims)
    values.push_back(dim.constantPart());
  return values;
}

/// The part of a tensor that has every element once.
at::Tensor elementsOnce(const at::Tensor &tensor) {
  at::Tensor part = tensor;
  for (int64_t d = 0; d < tensor.dim(); ++d)
    if (tensor.stride(d) == 0 && tensor.size(d) > 1)
      part = part.narrow(d, 0, 1);
  return part;
}

void fillFloats(const at::Tensor &part, Contents contents) {
  if (contents == Contents::None)
    return;
  if (!c10::isFloatingType(part.scalar_type()) || part.element_size() < 2 || !part.is_cpu()) {
    part.fill_(0.75);
    return;
  }
  at::Generator generator = at::detail::createCPUGenerator(1);
  part.uniform_(0.5, 1.0, generator);
  if (contents != Contents::Definite || part.dim() < 2 || part.size(-1) != part.size(-2) ||
      part.size(-1) == 0)
    return;
  at::Tensor copy = part.clone();
  at::Tensor diagonal = at::eye(part.size(-1), copy.options()) * static_cast<double>(part.size(-1));
  part.copy_((copy + copy.mT()) * 0.1 + diagonal);
}

at::Tensor wrappedNumber(at::ScalarType dtype) {
  at::Tensor number = at::scalar_tensor(0.75, at::TensorOptions().dtype(dtype));
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  return number;
}

} // namespace

at::Tensor synthetic(const ir::Type &type, const ir::Device &graphDevice, Contents contents) {
  if (type.conj || type.neg)
    userError("an operand is lazily conjugated or negated: call resolve_conj() or resolve_neg() first");
  PlainDispatch plain;
  if (type.wrapped)
    return wrappedNumber(type.dtype);
  const c10::Device device(ir::toString(type.device.value_or(graphDevice)));
  at::Tensor tensor = at::empty_strided(known(type.sizes), known(type.stridesOrContiguous()),
                                        at::TensorOptions().dtype(type.dtype).device(device));
  const at::Tensor part = elementsOnce(tensor);
  if (tensor.is_floating_point() || tensor.is_complex())
    fillFloats(part, contents);
  else
    part.fill_(type.dtype == at::kBool || contents == Contents::Ones ? 1 : 0);
  return tensor;
}

} // namespace graphopt::capture
