// floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1, as PyTorch's documentation of Conv2d
// and MaxPool2d has it; with ceil_mode the division rounds up.
#include "capture/window_sizes.h"

#include <algorithm>

namespace graphopt::capture {
namespace {

const c10::IValue *argument(const RowInfo &info, std::string_view name) {
  for (size_t i = 0; i < info.facts->arguments.size(); ++i)
    if (info.facts->arguments[i].name == name)
      return &info.arguments[i];
  return nullptr;
}

/// One a spatial dim; a single one stands for all, none for `otherwise`.
std::vector<int64_t> integers(const RowInfo &info, std::string_view name, std::vector<int64_t> otherwise) {
  const c10::IValue *value = argument(info, name);
  std::vector<int64_t> given;
  if (value && value->isInt())
    given = {value->toInt()};
  if (value && value->isIntList())
    given = value->toIntVector();
  if (given.empty())
    return otherwise;
  if (given.size() == 1)
    given.resize(otherwise.size(), given[0]);
  return given.size() == otherwise.size() ? given : otherwise;
}

bool isFlag(const RowInfo &info, std::string_view name) {
  const c10::IValue *value = argument(info, name);
  return value && value->isBool() && value->toBool();
}

/// Nothing for an operator without windows.
std::vector<int64_t> kernelOf(const Segment &segment, const RowInfo &info) {
  const std::string &base = info.facts->base;
  if (base.find("conv") != std::string::npos && !isFlag(info, "transposed") &&
      base.find("transpose") == std::string::npos)
    for (size_t i = 0; i < info.facts->arguments.size(); ++i)
      if (info.facts->arguments[i].name == "weight" && info.operands[i].size() == 1) {
        const auto &sizes = segment.values[info.operands[i][0]].metadata.sizes;
        return sizes.size() > 2 ? std::vector<int64_t>(sizes.begin() + 2, sizes.end())
                                : std::vector<int64_t>();
      }
  const c10::IValue *kernel = argument(info, "kernel_size");
  if (base.find("pool") == std::string::npos || !kernel || !kernel->isIntList())
    return {};
  std::vector<int64_t> sizes = kernel->toIntVector();
  const size_t spatial = base.find("3d") != std::string::npos   ? 3
                         : base.find("2d") != std::string::npos ? 2
                                                                : 1;
  if (sizes.size() == 1)
    sizes.resize(spatial, sizes[0]);
  return sizes.size() == spatial ? sizes : std::vector<int64_t>();
}

std::vector<int64_t> paddingOf(const RowInfo &info, const std::vector<int64_t> &kernel,
                               const std::vector<int64_t> &dilation) {
  const c10::IValue *given = argument(info, "padding");
  std::vector<int64_t> both = integers(info, "padding", std::vector<int64_t>(kernel.size(), 0));
  for (size_t i = 0; i < both.size(); ++i)
    both[i] = given && given->isString()
                  ? (given->toStringRef() == "same" ? dilation[i] * (kernel[i] - 1) : 0)
                  : 2 * both[i];
  return both;
}

} // namespace

std::vector<std::vector<ir::Dim>> windowSizes(const Segment &segment, const RowInfo &info,
                                              const std::vector<ir::Dim> &input) {
  const std::vector<int64_t> kernel = kernelOf(segment, info);
  if (kernel.empty() || input.size() <= kernel.size())
    return {};
  const std::vector<int64_t> ones(kernel.size(), 1);
  const bool isPool = argument(info, "kernel_size") != nullptr;
  const std::vector<int64_t> dilation = integers(info, "dilation", ones),
                             stride = integers(info, "stride", isPool ? kernel : ones),
                             padding = paddingOf(info, kernel, dilation);
  std::vector<std::vector<ir::Dim>> sizes;
  for (size_t i = 0; i < kernel.size(); ++i) {
    if (stride[i] <= 0)
      return {};
    const ir::Dim room =
        input[input.size() - kernel.size() + i] + ir::Dim(padding[i] - dilation[i] * (kernel[i] - 1) - 1);
    sizes.push_back({ir::Dim::floorDiv(room, ir::Dim(stride[i])) + ir::Dim(1)});
    if (isFlag(info, "ceil_mode"))
      sizes.back().push_back(ir::Dim::floorDiv(room + ir::Dim(stride[i] - 1), ir::Dim(stride[i])) +
                             ir::Dim(1));
  }
  return sizes;
}

} // namespace graphopt::capture
