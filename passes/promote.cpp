// Promotion works on four kinds (bool, integer, floating, complex), each an order of dtypes. Facts: c10's
// promoteTypes and at::result_type of LibTorch 2.11, held against both by core_rules_test.
#include "passes/promote.h"

#include <algorithm>

namespace graphopt::passes {
namespace {
using ir::DType;

enum class Kind { None, Bool, Integer, Floating, Complex };

/// Ordinary numbers only: 8-bit floats, wide unsigned and quantised dtypes follow rules of their own.
Kind kindOf(DType dtype) {
  if (dtype == DType::Bool)
    return Kind::Bool;
  for (DType integer : {DType::Byte, DType::Char, DType::Short, DType::Int, DType::Long})
    if (dtype == integer)
      return Kind::Integer;
  for (DType floating : {DType::Half, DType::BFloat16, DType::Float, DType::Double})
    if (dtype == floating)
      return Kind::Floating;
  return ir::isComplex(dtype) ? Kind::Complex : Kind::None;
}

DType promoteIntegers(DType a, DType b) {
  const bool mixed = (a == DType::Byte) != (b == DType::Byte);
  const int64_t bytes = std::max(ir::itemSize(a), ir::itemSize(b));
  if (mixed && bytes == 1)
    return DType::Short; // u8 with i8
  return ir::itemSize(a) == bytes && !(mixed && a == DType::Byte) ? a : b;
}

DType promoteFloats(DType a, DType b) {
  if (ir::itemSize(a) == ir::itemSize(b))
    return DType::Float; // f16 with bf16
  return ir::itemSize(a) > ir::itemSize(b) ? a : b;
}

/// The real dtype of a complex one's parts, and back.
DType partOf(DType dtype) {
  if (dtype == DType::ComplexHalf)
    return DType::Half;
  return dtype == DType::ComplexFloat ? DType::Float : DType::Double;
}
DType complexOf(DType part) {
  if (part == DType::Half)
    return DType::ComplexHalf;
  return part == DType::Double ? DType::ComplexDouble : DType::ComplexFloat;
}

/// What operands of one group (dims, no dims, wrapped) have in common; nothing when there are none.
struct Group {
  std::optional<DType> dtype;
  bool valid = true;

  void add(DType next) {
    if (!dtype) {
      dtype = next;
      valid &= kindOf(next) != Kind::None;
      return;
    }
    const auto both = promoteTypes(*dtype, next);
    valid &= both.has_value();
    dtype = both ? both : dtype;
  }

  /// This group, unless the lower one is of a higher kind.
  Group over(const Group &lower) const {
    if (!dtype || !lower.dtype)
      return {dtype ? dtype : lower.dtype, valid && lower.valid};
    const Kind high = kindOf(*dtype), low = kindOf(*lower.dtype);
    Group result{dtype, valid && lower.valid};
    if (low <= high)
      return result;
    result.dtype = high == Kind::Floating ? complexOf(*dtype) : promoteTypes(*dtype, *lower.dtype);
    return result;
  }
};

/// A wrapped number counts as one of the default dtype.
DType dtypeOf(const ir::Type &type) {
  if (!type.wrapped)
    return type.dtype;
  if (ir::isComplex(type.dtype))
    return DType::ComplexFloat;
  return ir::isFloating(type.dtype) ? DType::Float : type.dtype;
}

/// The size of a dim that both reach; nothing when neither is 1 and they may differ.
std::optional<ir::Dim> commonSize(const ir::Dim &a, const ir::Dim &b, const std::vector<ir::Sym> &syms) {
  if (a == ir::Dim(1))
    return b;
  if (b == ir::Dim(1) || ir::provablyEqual(a, b, syms))
    return a;
  return std::nullopt;
}

} // namespace

std::optional<DType> promoteTypes(DType a, DType b) {
  const Kind kindA = kindOf(a), kindB = kindOf(b);
  if (kindA == Kind::None || kindB == Kind::None)
    return std::nullopt;
  if (a == b)
    return a;
  if (kindA < kindB)
    return promoteTypes(b, a);
  if (kindA == Kind::Complex) {
    if (kindB != Kind::Floating && kindB != Kind::Complex)
      return a;
    return complexOf(promoteTypes(partOf(a), kindB == Kind::Complex ? partOf(b) : b).value());
  }
  if (kindA != kindB)
    return a;
  return kindA == Kind::Integer ? promoteIntegers(a, b) : promoteFloats(a, b);
}

std::optional<DType> commonDType(const std::vector<const ir::Type *> &operands) {
  Group dims, zero, wrapped;
  for (const ir::Type *type : operands)
    (type->rank() > 0 ? dims : type->wrapped ? wrapped : zero).add(dtypeOf(*type));
  const Group all = dims.over(zero.over(wrapped));
  return all.valid ? all.dtype : std::nullopt;
}

std::optional<std::vector<ir::Dim>> broadcastSizes(const std::vector<std::vector<ir::Dim>> &sizes,
                                                   const std::vector<ir::Sym> &syms) {
  size_t rank = 0;
  for (const auto &one : sizes)
    rank = std::max(rank, one.size());
  std::vector<ir::Dim> result(rank, 1);
  for (const auto &one : sizes)
    for (size_t i = 0; i < one.size(); ++i) {
      ir::Dim &size = result[rank - one.size() + i];
      const auto both = commonSize(size, one[i], syms);
      if (!both)
        return std::nullopt;
      size = *both;
    }
  return result;
}

} // namespace graphopt::passes
