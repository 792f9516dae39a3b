// A multilayer perceptron: many small operators, so that a call costs host time rather than computation.
#pragma once
#include <torch/nn/modules/container/modulelist.h>

namespace zoo {

struct MlpConfig {
  int64_t layers = 8, width = 256;
};
inline constexpr MlpConfig kMlp{};

struct MlpImpl : torch::nn::Module {
  explicit MlpImpl(const MlpConfig &config = {});
  /// [batch, width] -> [batch, width]
  torch::Tensor forward(torch::Tensor x);

  torch::nn::ModuleList layers;
};
TORCH_MODULE(Mlp);

} // namespace zoo
