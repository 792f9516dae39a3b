// Sizes of results, by operator: those that the C++ wheel has no shape function for. A rule is a function of
// the arguments as text has them; PyTorch's documentation of each operator has its formula.
#include "capture/row_arguments.h"
#include "capture/shapes.h"

#include <ATen/WrapDimUtils.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_map>

namespace graphopt::capture {
namespace {

using Many = std::optional<std::vector<Sizes>>;
using One = std::optional<Sizes>;
using Arguments = RowArguments;

// ---- the rules

One asFirst(const Arguments &in) { return in.first() ? One(*in.first()) : std::nullopt; }

/// One number of all elements; some want at least one of them.
One overAll(const Arguments &in) {
  const Sizes *sizes = in.first();
  const bool isEmpty = sizes && std::find(sizes->begin(), sizes->end(), 0) != sizes->end();
  return sizes && !isEmpty ? One(Sizes()) : std::nullopt;
}

/// One that draws: else it returns its argument.
One dropout(const Arguments &in) {
  const Sizes *sizes = in.first();
  bool isEmpty = sizes && std::find(sizes->begin(), sizes->end(), 0) != sizes->end();
  return sizes && !isEmpty && in.flag("train") ? One(*sizes) : std::nullopt;
}

One broadcast(std::initializer_list<const Sizes *> operands) {
  std::vector<int64_t> result;
  for (const Sizes *sizes : operands) {
    if (!sizes)
      return std::nullopt;
    result.insert(result.begin(), std::max(sizes->size(), result.size()) - result.size(), 1);
    for (size_t i = 0; i < sizes->size(); ++i) {
      int64_t &size = result[result.size() - sizes->size() + i];
      if (size != (*sizes)[i] && size != 1 && (*sizes)[i] != 1)
        return std::nullopt;
      size = size == 1 ? (*sizes)[i] : size;
    }
  }
  return Sizes(result.begin(), result.end());
}

One where(const Arguments &in) {
  return broadcast({in.tensor("condition"), in.tensor("self"), in.tensor("other")});
}

One lossOf(const Arguments &in) {
  constexpr int64_t kNone = 0; // at::Reduction
  if (in.value("reduction").toInt() != kNone)
    return Sizes();
  return broadcast({in.tensor("self"), in.tensor("target")});
}

One indexSelect(const Arguments &in) {
  Sizes sizes = *in.tensor("self");
  const Sizes *index = in.tensor("index");
  if (!index || sizes.empty() || index->size() > 1)
    return std::nullopt;
  int64_t dim = c10::maybe_wrap_dim(in.value("dim").toInt(), static_cast<int64_t>(sizes.size()));
  sizes[static_cast<size_t>(dim)] = index->empty() ? 1 : (*index)[0];
  return sizes;
}

One embedding(const Arguments &in) {
  Sizes sizes = *in.tensor("indices");
  const Sizes &weight = *in.tensor("weight");
  if (weight.size() != 2)
    return std::nullopt;
  sizes.push_back(weight[1]);
  return sizes;
}

/// floor((size + before + after - dilation (kernel - 1) - 1) / stride) + 1
int64_t windows(int64_t size, int64_t padding, int64_t dilation, int64_t kernel, int64_t stride) {
  int64_t room = size + padding - dilation * (kernel - 1) - 1;
  return room < 0 || stride <= 0 ? -1 : room / stride + 1;
}

struct ConvolutionSettings {
  std::vector<int64_t> stride, padding, dilation, outputPadding;
  int64_t groups = 1;
};

/// `padding` counts both sides.
One convolution(const Sizes &input, const Sizes &weight, const ConvolutionSettings &settings,
                bool transposed) {
  size_t spatial = weight.size() - 2;
  if (input.size() < spatial + 1 || settings.stride.size() != spatial || settings.padding.size() != spatial ||
      settings.dilation.size() != spatial)
    return std::nullopt;
  Sizes result(input.begin(), input.end());
  size_t start = input.size() - spatial;
  result[start - 1] = transposed ? weight[1] * settings.groups : weight[0];
  if (input[start - 1] != (transposed ? weight[0] : weight[1] * settings.groups))
    return std::nullopt;
  for (size_t i = 0; i < spatial; ++i) {
    int64_t size = input[start + i], kernel = weight[2 + i];
    result[start + i] =
        transposed ? (size - 1) * settings.stride[i] - settings.padding[i] +
                         settings.dilation[i] * (kernel - 1) + settings.outputPadding.at(i) + 1
                   : windows(size, settings.padding[i], settings.dilation[i], kernel, settings.stride[i]);
    if (result[start + i] < 0)
      return std::nullopt;
  }
  return result;
}

One convolutionOf(const Arguments &in, bool transposed) {
  const Sizes *input = in.tensor("input"), *weight = in.tensor("weight");
  if (!input || !weight || weight->size() < 3)
    return std::nullopt;
  size_t spatial = weight->size() - 2;
  ConvolutionSettings settings;
  settings.stride = in.integers("stride", spatial);
  settings.dilation = in.integers("dilation", spatial);
  settings.groups = in.value("groups").toInt();
  if (transposed)
    settings.outputPadding = in.integers("output_padding", spatial);
  c10::IValue padding = in.value("padding");
  if (padding.isString()) {
    bool same = padding.toStringRef() == "same";
    for (size_t i = 0; i < spatial; ++i)
      settings.padding.push_back(same ? settings.dilation[i] * ((*weight)[2 + i] - 1) : 0);
  } else {
    settings.padding = in.integers("padding", spatial);
    for (int64_t &side : settings.padding)
      side *= 2;
  }
  return convolution(*input, *weight, settings, transposed);
}

One convolutionForward(const Arguments &in) { return convolutionOf(in, false); }
One convolutionTransposed(const Arguments &in) { return convolutionOf(in, true); }
One convolutionGeneral(const Arguments &in) { return convolutionOf(in, in.flag("transposed")); }

One adaptivePool(const Arguments &in) {
  Sizes sizes = *in.first();
  std::vector<int64_t> output = in.list("output_size");
  if (output.size() > sizes.size())
    return std::nullopt;
  std::copy(output.begin(), output.end(), sizes.end() - static_cast<ptrdiff_t>(output.size()));
  return sizes;
}

/// Over `dim` (a list; none or empty: over all), which stay with size 1 where `keepdim`.
One reduction(const Arguments &in) {
  const Sizes &sizes = *in.first();
  auto rank = static_cast<int64_t>(sizes.size());
  std::vector<bool> isReduced(sizes.size(), in.list("dim").empty());
  for (int64_t dim : in.list("dim"))
    if (rank > 0)
      isReduced[static_cast<size_t>(c10::maybe_wrap_dim(dim, rank))] = true;
  Sizes result;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (!isReduced[i] || in.flag("keepdim"))
      result.push_back(isReduced[i] ? 1 : sizes[i]);
  return result;
}
Many twoAsFirst(const Arguments &in) {
  if (!in.first())
    return std::nullopt;
  return std::vector{*in.first(), *in.first()};
}
/// Samples at the grid's places.
One gridSampler(const Arguments &in) {
  Sizes sizes = *in.tensor("input");
  const Sizes &grid = *in.tensor("grid");
  if (grid.size() != sizes.size() || sizes.size() < 3)
    return std::nullopt;
  std::copy(grid.begin() + 1, grid.end() - 1, sizes.begin() + 2);
  return sizes;
}
Many twoReductions(const Arguments &in) {
  Sizes sizes = *reduction(in);
  return std::vector{sizes, sizes};
}

/// Which kernel runs, and with it the layout of the result, follows from sizes: the dense order of the
/// recorded result holds for all of them but one that pads.
One attention(const Arguments &in) {
  const Sizes *query = in.tensor("query"), *value = in.tensor("value");
  if (!query || !value || query->size() < 2 || query->size() != value->size() || in.flag("enable_gqa"))
    return std::nullopt;
  Sizes sizes = *query;
  sizes.back() = value->back();
  return sizes;
}

/// Of lstm.input, gru.input, rnn_*.input: (output, final state of each kind).
Many recurrent(const Arguments &in) {
  const Sizes *input = in.tensor("input");
  std::vector<Sizes> states = in.tensors("hx");
  if (!input || input->size() != 3 || states.empty() || states[0].size() != 3)
    return std::nullopt;
  Sizes output = *input;
  output[2] = states[0][2] * (in.flag("bidirectional") ? 2 : 1);
  states.insert(states.begin(), output);
  return states;
}

using Rule = std::function<Many(const Segment &, const RowInfo &)>;

Rule one(One (*rule)(const Arguments &)) {
  return [rule](const Segment &segment, const RowInfo &info) -> Many {
    One sizes = rule(Arguments(segment, info));
    return sizes ? Many(std::vector{*sizes}) : std::nullopt;
  };
}
Rule many(Many (*rule)(const Arguments &)) {
  return [rule](const Segment &segment, const RowInfo &info) { return rule(Arguments(segment, info)); };
}

/// By full name, else by base name.
const std::unordered_map<std::string_view, Rule> &rules() {
  static const auto &table = *new std::unordered_map<std::string_view, Rule>{
      {"relu", one(asFirst)},
      {"hardswish", one(asFirst)},
      {"hardtanh", one(asFirst)},
      {"relu6", one(asFirst)},
      {"prelu", one(asFirst)},
      {"rrelu", one(asFirst)},
      {"layer_norm", one(asFirst)},
      {"rms_norm", one(asFirst)},
      {"group_norm", one(asFirst)},
      {"instance_norm", one(asFirst)},
      {"batch_norm", one(asFirst)},
      {"flip", one(asFirst)},
      {"abs", one(asFirst)},
      {"logcumsumexp", one(asFirst)},
      {"channel_shuffle", one(asFirst)},
      {"cummax", many(twoAsFirst)},
      {"cummin", many(twoAsFirst)},
      {"roll", one(asFirst)},
      {"dropout", one(dropout)},
      {"feature_dropout", one(dropout)},
      {"alpha_dropout", one(dropout)},
      {"aten.prod", one(overAll)},
      {"aten.max", one(overAll)},
      {"aten.min", one(overAll)},
      {"aten.median", one(overAll)},
      {"aten.nanmedian", one(overAll)},
      {"aten.where.self", one(where)},
      {"binary_cross_entropy_with_logits", one(lossOf)},
      {"binary_cross_entropy", one(lossOf)},
      {"l1_loss", one(lossOf)},
      {"huber_loss", one(lossOf)},
      {"smooth_l1_loss", one(lossOf)},
      {"grid_sampler", one(gridSampler)},
      {"grid_sampler_2d", one(gridSampler)},
      {"grid_sampler_3d", one(gridSampler)},
      {"index_select", one(indexSelect)},
      {"embedding", one(embedding)},
      {"conv1d", one(convolutionForward)},
      {"conv2d", one(convolutionForward)},
      {"conv3d", one(convolutionForward)},
      {"conv_transpose1d", one(convolutionTransposed)},
      {"conv_transpose2d", one(convolutionTransposed)},
      {"conv_transpose3d", one(convolutionTransposed)},
      {"convolution", one(convolutionGeneral)},
      {"_convolution", one(convolutionGeneral)},
      {"adaptive_avg_pool1d", one(adaptivePool)},
      {"adaptive_avg_pool2d", one(adaptivePool)},
      {"adaptive_avg_pool3d", one(adaptivePool)},
      {"logsumexp", one(reduction)},
      {"mode", many(twoReductions)},
      {"kthvalue", many(twoReductions)},
      {"var", one(reduction)},
      {"std", one(reduction)},
      {"var_mean", many(twoReductions)},
      {"std_mean", many(twoReductions)},
      {"scaled_dot_product_attention", one(attention)},
      {"aten.gru.input", many(recurrent)},
      {"aten.rnn_tanh.input", many(recurrent)},
      {"aten.rnn_relu.input", many(recurrent)},
      {"aten.lstm.input", many(recurrent)},
  };
  return table;
}

} // namespace

std::optional<ResultLayouts> layoutsByRule(const Segment &segment, size_t row) {
  const RowInfo &info = segment.infos[row];
  auto rule = rules().find(info.facts->name);
  if (rule == rules().end())
    rule = rules().find(info.facts->base);
  if (rule == rules().end())
    return std::nullopt;
  Many sizes = rule->second(segment, info);
  if (!sizes || sizes->size() != info.results.size())
    return std::nullopt;
  ResultLayouts layouts;
  for (Sizes &result : *sizes)
    layouts.push_back({std::move(result), std::nullopt, 0});
  return layouts;
}

} // namespace graphopt::capture
