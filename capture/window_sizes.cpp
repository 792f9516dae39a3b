// floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1, as PyTorch's documentation of Conv2d
// and MaxPool2d has it; with ceil_mode the division rounds up.
#include "capture/window_sizes.h"

#include "capture/row_arguments.h"

namespace graphopt::capture {
namespace {

bool has(const std::string &text, std::string_view part) { return text.find(part) != std::string::npos; }

/// Nothing for an operator without windows.
std::vector<int64_t> kernelOf(const std::string &base, const RowArguments &in) {
  if (has(base, "conv") && !has(base, "transpose") && !in.flag("transposed")) {
    const Sizes *weight = in.tensor("weight");
    return weight && weight->size() > 2 ? std::vector<int64_t>(weight->begin() + 2, weight->end())
                                        : std::vector<int64_t>();
  }
  const size_t spatial = has(base, "3d") ? 3 : has(base, "2d") ? 2 : 1;
  std::vector<int64_t> kernel = in.integers("kernel_size", spatial);
  return has(base, "pool") && kernel.size() == spatial ? kernel : std::vector<int64_t>();
}

/// One a spatial dim; `otherwise` where the list is empty or not given.
std::vector<int64_t> orElse(std::vector<int64_t> given, const std::vector<int64_t> &otherwise) {
  return given.size() == otherwise.size() ? given : otherwise;
}

/// Of both sides.
std::vector<int64_t> paddingOf(const RowArguments &in, const std::vector<int64_t> &kernel,
                               const std::vector<int64_t> &dilation) {
  std::vector<int64_t> both =
      orElse(in.integers("padding", kernel.size()), std::vector<int64_t>(kernel.size()));
  const c10::IValue given = in.value("padding");
  const bool isSame = given.isString() && given.toStringRef() == "same";
  for (size_t i = 0; i < both.size(); ++i)
    both[i] = isSame ? dilation[i] * (kernel[i] - 1) : 2 * both[i];
  return both;
}

} // namespace

std::vector<std::vector<ir::Dim>> windowSizes(const Segment &segment, const RowInfo &info,
                                              const std::vector<ir::Dim> &input) {
  const RowArguments in(segment, info);
  const std::vector<int64_t> kernel = kernelOf(info.facts->base, in);
  if (kernel.empty() || input.size() <= kernel.size())
    return {};
  const size_t spatial = kernel.size();
  const std::vector<int64_t> ones(spatial, 1);
  const bool isPool = !in.value("kernel_size").isNone();
  const std::vector<int64_t> dilation = orElse(in.integers("dilation", spatial), ones),
                             stride = orElse(in.integers("stride", spatial), isPool ? kernel : ones),
                             padding = paddingOf(in, kernel, dilation);
  std::vector<std::vector<ir::Dim>> sizes;
  for (size_t i = 0; i < spatial; ++i) {
    if (stride[i] <= 0)
      return {};
    const ir::Dim room =
        input[input.size() - spatial + i] + ir::Dim(padding[i] - dilation[i] * (kernel[i] - 1) - 1);
    sizes.push_back({ir::Dim::floorDiv(room, ir::Dim(stride[i])) + ir::Dim(1)});
    if (in.flag("ceil_mode"))
      sizes.back().push_back(ir::Dim::floorDiv(room + ir::Dim(stride[i] - 1), ir::Dim(stride[i])) +
                             ir::Dim(1));
  }
  return sizes;
}

} // namespace graphopt::capture
