// The words of the settings in a graph's header: what LibTorch's process-wide switches are called in the
// text.
#pragma once
#include <array>
#include <string_view>

namespace graphopt::ir {

/// deterministic=: off, warn (algorithms that are not deterministic only warn), on.
inline constexpr std::array<std::string_view, 3> kDeterministicWords = {"off", "warn", "on"};
/// The word for LibTorch's two flags.
constexpr std::string_view deterministicWord(bool deterministic, bool warnOnly) {
  return kDeterministicWords[deterministic ? (warnOnly ? 1 : 2) : 0];
}

/// matmul=: of f32 products.
inline constexpr std::array<std::string_view, 3> kMatmulWords = {"highest", "high", "medium"};
/// The word for LibTorch's precisions of CUDA's and oneDNN's products (none, ieee, tf32, bf16); empty where
/// they were set one by one, to something that no word says.
constexpr std::string_view matmulWord(std::string_view cuda, std::string_view mkldnn) {
  bool isReduced = mkldnn == "tf32" || mkldnn == "bf16";
  if (cuda != "tf32")
    return isReduced ? "" : "highest";
  return mkldnn == "tf32" ? "high" : mkldnn == "bf16" ? "medium" : "";
}

} // namespace graphopt::ir
