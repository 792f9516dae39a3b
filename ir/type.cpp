// Types: the contiguous layout that goes without saying, and the text.
#include "ir/type.h"

#include <fmt/format.h>
#include <graphopt/error.h>

namespace graphopt::ir {

Type Type::tensor(DType dtype, std::vector<Dim> sizes) {
  Type type;
  type.dtype = dtype;
  type.sizes = std::move(sizes);
  return type;
}

Type Type::scalar(Kind kind) {
  GO_ASSERT(kind != Kind::Tensor, "a tensor type needs a dtype and sizes");
  Type type;
  type.kind = kind;
  return type;
}

std::vector<Dim> contiguousStrides(const std::vector<Dim> &sizes) {
  std::vector<Dim> strides(sizes.size());
  Dim step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    if (i > 0 && sizes[i] != Dim(0)) // the first size never enters: it may be as large as it likes
      step = step * sizes[i];
  }
  return strides;
}

std::vector<Dim> denseStrides(const std::vector<Dim> &sizes, const std::vector<uint8_t> &order) {
  std::vector<Dim> strides(sizes.size(), Dim(0));
  Dim step = 1;
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    strides.at(*dim) = step;
    step = step * sizes[*dim];
  }
  return strides;
}

void Type::setStrides(std::vector<Dim> value) {
  if (value == contiguousStrides(sizes))
    strides.reset();
  else
    strides = std::move(value);
}

std::vector<Dim> Type::stridesOrContiguous() const { return strides ? *strides : contiguousStrides(sizes); }

Dim Type::numel() const {
  Dim product = 1;
  for (const Dim &size : sizes)
    product = product * size;
  return product;
}

namespace {
std::string dimsText(const std::vector<Dim> &dims) {
  std::string out;
  for (const Dim &dim : dims)
    out += (out.empty() ? "" : ", ") + toString(dim);
  return "[" + out + "]";
}

std::string_view scalarName(Type::Kind kind) {
  switch (kind) {
  case Type::Kind::Int:
    return "int";
  case Type::Kind::Float:
    return "float";
  case Type::Kind::Bool:
    return "bool";
  case Type::Kind::List:
    return "list";
  case Type::Kind::None:
    return "none";
  case Type::Kind::Tensor:
    break;
  }
  GO_ASSERT(false, "a tensor type has no scalar name");
}
} // namespace

std::string toString(const Type &type) {
  if (!type.isTensor())
    return std::string(scalarName(type.kind));
  std::string out(dtypeName(type.dtype));
  out += dimsText(type.sizes);
  if (type.strides)
    out += " strides=" + dimsText(*type.strides);
  if (type.device)
    out += " device=" + toString(*type.device);
  for (auto [set, word] : {std::pair(type.wrapped, " wrapped"), std::pair(type.conj, " conj"),
                           std::pair(type.neg, " neg"), std::pair(type.grad, " grad")})
    if (set)
      out += word;
  return out;
}

} // namespace graphopt::ir
