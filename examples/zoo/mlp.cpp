// See mlp.h.
#include "zoo/mlp.h"

#include <torch/nn/modules/linear.h>

namespace zoo {

namespace nn = torch::nn;

MlpImpl::MlpImpl(const MlpConfig &config) {
  register_module("layers", layers);
  for (int64_t i = 0; i < config.layers; ++i)
    layers->push_back(nn::Linear(config.width, config.width));
}

torch::Tensor MlpImpl::forward(torch::Tensor x) {
  const size_t last = layers->size() - 1;
  for (size_t i = 0; i < last; ++i)
    x = torch::relu(layers->at<nn::LinearImpl>(i).forward(x));
  return layers->at<nn::LinearImpl>(last).forward(x);
}

} // namespace zoo
