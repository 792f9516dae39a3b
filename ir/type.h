// The type of a value: a tensor's dtype, sizes, strides, device and flags, or a host scalar.
#pragma once
#include "ir/dim.h"
#include "ir/dtype.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace graphopt::ir {

struct Type {
  enum class Kind { Tensor, Int, Float, Bool, List, None }; // None: an undefined tensor
  Kind kind = Kind::Tensor;
  DType dtype = DType::Float;
  std::vector<Dim> sizes;
  /// Nothing: contiguous in C order. A contiguous tensor never carries its strides, so equal layouts are
  /// equal types; use Type::tensor or setStrides, which see to that.
  std::optional<std::vector<Dim>> strides;
  /// Nothing: the graph's device.
  std::optional<Device> device;
  bool wrapped = false; ///< a wrapped number: a 0-dim tensor that promotes like a host scalar
  bool conj = false;    ///< lazily conjugated
  bool neg = false;     ///< lazily negated
  bool grad = false;    ///< declarations only: requires_grad

  static Type tensor(DType dtype, std::vector<Dim> sizes);
  static Type scalar(Kind kind);
  bool isTensor() const { return kind == Kind::Tensor; }
  size_t rank() const { return sizes.size(); }
  /// Sets the strides, or clears them when they are those of a contiguous tensor. A dim of size 1, and every
  /// dim of an empty tensor, may have any stride in LibTorch: those are kept only if they differ.
  void setStrides(std::vector<Dim> value);
  /// The strides, computed when contiguous.
  std::vector<Dim> stridesOrContiguous() const;
  /// Product of the sizes.
  Dim numel() const;
  bool operator==(const Type &) const = default;
};

/// C-order strides of the sizes, as LibTorch makes them (a size of 0 counts as 1).
std::vector<Dim> contiguousStrides(const std::vector<Dim> &sizes);

/// Strides without gaps when dims lie in this order, from the outermost in; 0 for dims that it leaves out.
std::vector<Dim> denseStrides(const std::vector<Dim> &sizes, const std::vector<uint8_t> &order);

/// "f32[2, 16]", "f32[16, 4] strides=[1, 16]", "i64[] device=cpu wrapped", "int".
std::string toString(const Type &type);

} // namespace graphopt::ir
