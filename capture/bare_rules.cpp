// A rule is a function of the arguments by name. Formulas: PyTorch's documentation of each operator; layouts
// as LibTorch 2.11's CPU and CUDA kernels make them, checked against the kernels over the operator cases.
#include "capture/bare_rules.h"

#include "capture/bare_arguments.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace graphopt::capture {
namespace {

// ---- rules

Results relu(const In &in) { return one(like(in.tensor("self"))); }

/// A softmax with a look at rows that are masked as a whole.
Results safeSoftmax(const In &in) {
  const at::Tensor self = in.tensor("self");
  if (!self.is_contiguous() || self.dim() == 0)
    return std::nullopt;
  return one(contiguous(self.sizes().vec(), in.dtype("dtype", self.scalar_type())));
}

/// The kernel of GPUs: a mask of booleans beside the output.
Results nativeDropout(const In &in) {
  const at::Tensor input = in.tensor("input");
  std::optional<BareResult> output = like(input), mask = output;
  if (!input.is_cuda() || !output || input.numel() == 0)
    return std::nullopt;
  mask->dtype = at::kBool;
  return std::vector{*output, *mask};
}

at::ScalarType statisticsType(const at::Tensor &input, const at::Tensor &weight) {
  const bool isLow = input.scalar_type() == at::kHalf || input.scalar_type() == at::kBFloat16;
  if (!isLow)
    return input.scalar_type();
  const bool isMixed = weight.defined() && weight.scalar_type() == at::kFloat;
  return input.is_cuda() || isMixed ? at::kFloat : input.scalar_type();
}

Results layerNorm(const In &in) {
  const at::Tensor input = in.tensor("input");
  const size_t normalized = in.ints("normalized_shape").size();
  if (!input.is_contiguous() || normalized > static_cast<size_t>(input.dim()))
    return std::nullopt;
  std::vector<int64_t> sizes = input.sizes().vec();
  std::fill(sizes.end() - static_cast<ptrdiff_t>(normalized), sizes.end(), 1);
  const at::ScalarType dtype = statisticsType(input, in.tensor("weight"));
  return std::vector{contiguousLike(input), contiguous(sizes, dtype), contiguous(sizes, dtype)};
}

Results layerNormBackward(const In &in) {
  const std::vector<bool> mask = in.mask("output_mask");
  const at::Tensor input = in.tensor("input"), weight = in.tensor("weight"), bias = in.tensor("bias");
  if (mask.size() != 3 || !input.is_contiguous() || (mask[1] && !weight.defined()) ||
      (mask[2] && !bias.defined()))
    return std::nullopt;
  return std::vector{mask[0] ? contiguousLike(input) : undefined(),
                     mask[1] ? contiguousLike(weight) : undefined(),
                     mask[2] ? contiguousLike(bias) : undefined()};
}

Results embedding(const In &in) {
  const at::Tensor weight = in.tensor("weight"), indices = in.tensor("indices");
  if (weight.dim() != 2)
    return std::nullopt;
  std::vector<int64_t> sizes = indices.sizes().vec();
  sizes.push_back(weight.size(1));
  return one(contiguous(std::move(sizes), weight.scalar_type()));
}

Results embeddingBackward(const In &in) {
  const at::Tensor gradient = in.tensor("grad_output");
  return one(contiguous({in.number("num_weights"), gradient.size(-1)}, gradient.scalar_type()));
}

/// The kernel of CPUs: its output lies as the query does.
Results attentionOnCpu(const In &in) {
  const at::Tensor query = in.tensor("query"), value = in.tensor("value");
  if (query.dim() != 4 || !query.is_cpu() || value.size(3) != query.size(3))
    return std::nullopt;
  const int64_t batch = query.size(0), heads = query.size(1), length = query.size(2);
  std::optional<BareResult> output = like(query);
  if (!output)
    return std::nullopt;
  const bool isLow = query.scalar_type() == at::kHalf || query.scalar_type() == at::kBFloat16;
  BareResult logSum{
      {batch, heads, length}, {length * heads, 1, heads}, isLow ? at::kFloat : query.scalar_type(), false};
  return std::vector{*output, logSum};
}

Results attentionOnCpuBackward(const In &in) {
  const at::Tensor query = in.tensor("query"), key = in.tensor("key"), value = in.tensor("value");
  if (query.dim() != 4 || !query.is_cpu())
    return std::nullopt;
  auto transposed = [](const at::Tensor &like) {
    const int64_t heads = like.size(1), length = like.size(2), size = like.size(3);
    return BareResult{
        like.sizes().vec(), {length * heads * size, size, heads * size, 1}, like.scalar_type(), false};
  };
  return std::vector{transposed(query), transposed(key), transposed(value)};
}

// ---- convolutions and batch norm, where all is contiguous and could not be taken for channels last

/// floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1
Results convolution(const In &in) {
  const at::Tensor input = in.tensor("input"), weight = in.tensor("weight");
  const std::vector<int64_t> stride = in.ints("stride"), padding = in.ints("padding"),
                             dilation = in.ints("dilation");
  const auto spatial = static_cast<size_t>(weight.dim() - 2);
  const bool fits = input.is_cpu() && input.dim() == weight.dim() && isPlain(input) && isPlain(weight) &&
                    !in.flag("transposed") && stride.size() == spatial && padding.size() == spatial &&
                    dilation.size() == spatial && input.scalar_type() == weight.scalar_type();
  if (!fits)
    return std::nullopt;
  std::vector<int64_t> sizes{input.size(0), weight.size(0)};
  for (size_t i = 0; i < spatial; ++i) {
    const auto d = static_cast<int64_t>(i + 2);
    const int64_t room = input.size(d) + 2 * padding[i] - dilation[i] * (weight.size(d) - 1) - 1;
    if (room < 0)
      return std::nullopt;
    sizes.push_back(room / stride[i] + 1);
  }
  return one(contiguous(std::move(sizes), input.scalar_type()));
}

Results convolutionBackward(const In &in) {
  const at::Tensor gradient = in.tensor("grad_output"), input = in.tensor("input"),
                   weight = in.tensor("weight");
  const std::vector<bool> mask = in.mask("output_mask");
  const bool fits = input.is_cpu() && mask.size() == 3 && isPlain(gradient) && isPlain(input) &&
                    isPlain(weight) && !in.flag("transposed") && input.scalar_type() == weight.scalar_type();
  if (!fits)
    return std::nullopt;
  return std::vector{mask[0] ? contiguousLike(input) : undefined(),
                     mask[1] ? contiguousLike(weight) : undefined(),
                     mask[2] ? contiguous({weight.size(0)}, weight.scalar_type()) : undefined()};
}

Results batchNorm(const In &in) {
  const at::Tensor input = in.tensor("input");
  if (!in.flag("training") || input.dim() < 2 || !isPlain(input) || input.scalar_type() != at::kFloat)
    return std::nullopt;
  const BareResult statistics = contiguous({input.size(1)}, input.scalar_type());
  return std::vector{contiguousLike(input), statistics, statistics};
}

Results batchNormBackward(const In &in) {
  const at::Tensor input = in.tensor("input"), gradient = in.tensor("grad_out");
  const std::vector<bool> mask = in.mask("output_mask");
  const bool fits = in.flag("train") && mask.size() == 3 && input.dim() >= 2 && isPlain(input) &&
                    isPlain(gradient) && input.scalar_type() == at::kFloat;
  if (!fits)
    return std::nullopt;
  const BareResult channels = contiguous({input.size(1)}, input.scalar_type());
  return std::vector{mask[0] ? contiguousLike(input) : undefined(), mask[1] ? channels : undefined(),
                     mask[2] ? channels : undefined()};
}

/// Groups of channels, of (batch, channels, ...).
Results groupNorm(const In &in) {
  const at::Tensor input = in.tensor("input");
  if (!isPlain(input) || input.dim() < 2)
    return std::nullopt;
  const BareResult statistics =
      contiguous({in.number("N"), in.number("group")}, statisticsType(input, in.tensor("weight")));
  return std::vector{contiguousLike(input), statistics, statistics};
}

Results groupNormBackward(const In &in) {
  const at::Tensor input = in.tensor("input"), weight = in.tensor("weight");
  const std::vector<bool> mask = in.mask("output_mask");
  if (mask.size() != 3 || !isPlain(input) || !isPlain(in.tensor("grad_out")) || !weight.defined())
    return std::nullopt;
  return std::vector{mask[0] ? contiguousLike(input) : undefined(),
                     mask[1] ? contiguousLike(weight) : undefined(),
                     mask[2] ? contiguousLike(weight) : undefined()};
}

Results adaptivePool(const In &in) {
  const at::Tensor self = in.tensor("self");
  const std::vector<int64_t> output = in.ints("output_size");
  if (!isPlain(self) || output.empty() || static_cast<size_t>(self.dim()) <= output.size())
    return std::nullopt;
  std::vector<int64_t> sizes = self.sizes().vec();
  std::copy(output.begin(), output.end(), sizes.end() - static_cast<ptrdiff_t>(output.size()));
  return one(contiguous(std::move(sizes), self.scalar_type()));
}

Results adaptivePoolBackward(const In &in) {
  const at::Tensor self = in.tensor("self");
  return isPlain(self) && isPlain(in.tensor("grad_output")) ? one(contiguousLike(self)) : std::nullopt;
}

Results indexSelect(const In &in) {
  const at::Tensor self = in.tensor("self"), index = in.tensor("index");
  if (self.dim() == 0 || index.dim() > 1 || !self.is_contiguous())
    return std::nullopt;
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes.at(static_cast<size_t>(in.number("dim") + (in.number("dim") < 0 ? self.dim() : 0))) = index.numel();
  return one(contiguous(std::move(sizes), self.scalar_type()));
}

Results flip(const In &in) { return one(like(in.tensor("self"))); }

Results roll(const In &in) {
  const at::Tensor self = in.tensor("self");
  return isPlain(self) && self.numel() > 0 ? one(contiguousLike(self)) : std::nullopt;
}

using Rule = Results (*)(const In &);

/// By base name.
const std::unordered_map<std::string_view, Rule> &rules() {
  static const auto &table = *new std::unordered_map<std::string_view, Rule>{
      {"relu", relu},
      {"native_group_norm", groupNorm},
      {"native_group_norm_backward", groupNormBackward},
      {"_adaptive_avg_pool2d", adaptivePool},
      {"_adaptive_avg_pool3d", adaptivePool},
      {"_adaptive_avg_pool2d_backward", adaptivePoolBackward},
      {"_adaptive_avg_pool3d_backward", adaptivePoolBackward},
      {"index_select", indexSelect},
      {"flip", flip},
      {"roll", roll},
      {"convolution", convolution},
      {"convolution_backward", convolutionBackward},
      {"native_batch_norm", batchNorm},
      {"native_batch_norm_backward", batchNormBackward},
      {"_safe_softmax", safeSoftmax},
      {"native_dropout", nativeDropout},
      {"native_layer_norm", layerNorm},
      {"native_layer_norm_backward", layerNormBackward},
      {"embedding", embedding},
      {"embedding_dense_backward", embeddingBackward},
      {"_scaled_dot_product_flash_attention_for_cpu", attentionOnCpu},
      {"_scaled_dot_product_flash_attention_for_cpu_backward", attentionOnCpuBackward},
  };
  return table;
}

} // namespace

Results resultsByRule(const OperatorFacts &facts, const torch::jit::Stack &arguments) {
  if (facts.isWrite || facts.name.find(".out") != std::string::npos)
    return std::nullopt;
  const In in(facts, arguments);
  auto rule = rules().find(facts.base);
  return rule == rules().end() ? iteratorResults(facts, in) : rule->second(in);
}

} // namespace graphopt::capture
