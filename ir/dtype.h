// Element types and devices of the IR: LibTorch's own scalar types under short names, and a device that
// needs no torch library.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <torch/headeronly/core/ScalarType.h>

namespace graphopt::ir {

using DType = c10::ScalarType;

/// The name of a dtype in the text: f32, bf16, i64, bool, c64, f8e4m3fn ... Every LibTorch dtype has one.
std::string_view dtypeName(DType dtype);
/// The dtype of that name, or nothing.
std::optional<DType> parseDType(std::string_view name);

bool isFloating(DType dtype); ///< f64 f32 f16 bf16 and the 8-bit floats
bool isComplex(DType dtype);
bool isInteger(DType dtype); ///< signed and unsigned integers, not bool
/// Bytes of one element; 0 for sub-byte and unknown types.
int64_t itemSize(DType dtype);

/// cpu, cuda:0, meta ... `index` is -1 where the device type has only one (cpu, meta).
struct Device {
  std::string type = "cpu";
  int index = -1;
  bool operator==(const Device &) const = default;
  bool isCpu() const { return type == "cpu"; }
};
std::string toString(const Device &device);
/// Parses "cpu", "cuda", "cuda:1"; nothing when the text is no device.
std::optional<Device> parseDevice(std::string_view text);

} // namespace graphopt::ir
