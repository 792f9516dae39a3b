// Names of dtypes and devices: one table, so that printing and parsing cannot disagree.
#include "ir/dtype.h"

#include <algorithm>
#include <charconv>
#include <graphopt/error.h>

namespace graphopt::ir {

namespace {
enum class Group { None, Floating, Complex, Integer };

struct DTypeRow {
  DType dtype;
  std::string_view name;
  Group group;
  int64_t bytes; // 0: an element is smaller than a byte, or has no size of its own
};

constexpr DTypeRow kDTypes[] = {
    {DType::Byte, "u8", Group::Integer, 1},
    {DType::Char, "i8", Group::Integer, 1},
    {DType::Short, "i16", Group::Integer, 2},
    {DType::Int, "i32", Group::Integer, 4},
    {DType::Long, "i64", Group::Integer, 8},
    {DType::Half, "f16", Group::Floating, 2},
    {DType::Float, "f32", Group::Floating, 4},
    {DType::Double, "f64", Group::Floating, 8},
    {DType::ComplexHalf, "c32", Group::Complex, 4},
    {DType::ComplexFloat, "c64", Group::Complex, 8},
    {DType::ComplexDouble, "c128", Group::Complex, 16},
    {DType::Bool, "bool", Group::None, 1},
    {DType::QInt8, "qi8", Group::None, 1},
    {DType::QUInt8, "qu8", Group::None, 1},
    {DType::QInt32, "qi32", Group::None, 4},
    {DType::BFloat16, "bf16", Group::Floating, 2},
    {DType::QUInt4x2, "qu4x2", Group::None, 0},
    {DType::QUInt2x4, "qu2x4", Group::None, 0},
    {DType::Bits1x8, "bits1x8", Group::None, 1},
    {DType::Bits2x4, "bits2x4", Group::None, 1},
    {DType::Bits4x2, "bits4x2", Group::None, 1},
    {DType::Bits8, "bits8", Group::None, 1},
    {DType::Bits16, "bits16", Group::None, 2},
    {DType::Float8_e5m2, "f8e5m2", Group::Floating, 1},
    {DType::Float8_e4m3fn, "f8e4m3fn", Group::Floating, 1},
    {DType::Float8_e5m2fnuz, "f8e5m2fnuz", Group::Floating, 1},
    {DType::Float8_e4m3fnuz, "f8e4m3fnuz", Group::Floating, 1},
    {DType::UInt16, "u16", Group::Integer, 2},
    {DType::UInt32, "u32", Group::Integer, 4},
    {DType::UInt64, "u64", Group::Integer, 8},
    {DType::UInt1, "u1", Group::Integer, 0},
    {DType::UInt2, "u2", Group::Integer, 0},
    {DType::UInt3, "u3", Group::Integer, 0},
    {DType::UInt4, "u4", Group::Integer, 0},
    {DType::UInt5, "u5", Group::Integer, 0},
    {DType::UInt6, "u6", Group::Integer, 0},
    {DType::UInt7, "u7", Group::Integer, 0},
    {DType::Int1, "i1", Group::Integer, 0},
    {DType::Int2, "i2", Group::Integer, 0},
    {DType::Int3, "i3", Group::Integer, 0},
    {DType::Int4, "i4", Group::Integer, 0},
    {DType::Int5, "i5", Group::Integer, 0},
    {DType::Int6, "i6", Group::Integer, 0},
    {DType::Int7, "i7", Group::Integer, 0},
    {DType::Float8_e8m0fnu, "f8e8m0fnu", Group::Floating, 1},
    {DType::Float4_e2m1fn_x2, "f4e2m1fnx2", Group::None, 0},
    {DType::Undefined, "undefined", Group::None, 0},
};

constexpr bool isInOrder() {
  size_t i = 0;
  for (const DTypeRow &row : kDTypes)
    if (static_cast<size_t>(row.dtype) != i++)
      return false;
  return i == static_cast<size_t>(DType::NumOptions);
}
static_assert(isInOrder(), "one row for each c10::ScalarType, in its order");

const DTypeRow &rowOf(DType dtype) {
  auto index = static_cast<size_t>(dtype);
  GO_ASSERT(index < std::size(kDTypes), "no such dtype");
  return kDTypes[index];
}
} // namespace

std::string_view dtypeName(DType dtype) { return rowOf(dtype).name; }

std::optional<DType> parseDType(std::string_view name) {
  for (const DTypeRow &row : kDTypes)
    if (row.name == name)
      return row.dtype;
  return std::nullopt;
}

bool isFloating(DType dtype) { return rowOf(dtype).group == Group::Floating; }
bool isComplex(DType dtype) { return rowOf(dtype).group == Group::Complex; }
bool isInteger(DType dtype) { return rowOf(dtype).group == Group::Integer; }
int64_t itemSize(DType dtype) { return rowOf(dtype).bytes; }

std::string toString(const Device &device) {
  return device.index < 0 ? device.type : device.type + ":" + std::to_string(device.index);
}

std::optional<Device> parseDevice(std::string_view text) {
  auto isTypeChar = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  size_t colon = text.find(':');
  std::string_view type = text.substr(0, colon);
  bool named = !type.empty() && type[0] >= 'a' && type[0] <= 'z';
  if (!named || !std::all_of(type.begin(), type.end(), isTypeChar))
    return std::nullopt;
  Device device{std::string(type), -1};
  if (colon == text.npos)
    return device;
  std::string_view number = text.substr(colon + 1);
  auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), device.index);
  bool whole = error == std::errc() && end == number.data() + number.size() && device.index >= 0;
  bool canonical = number.size() == 1 || (!number.empty() && number[0] != '0');
  return whole && canonical ? std::optional(device) : std::nullopt;
}

} // namespace graphopt::ir
