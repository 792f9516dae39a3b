// See resnet.h.
#include "zoo/resnet.h"

#include <torch/nn/init.h>

namespace zoo {

using torch::Tensor;
namespace nn = torch::nn;

namespace {

nn::Conv2d conv1x1(int64_t in, int64_t out, int64_t stride = 1) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, 1).stride(stride).bias(false));
}

nn::Conv2d conv3x3(int64_t in, int64_t out, int64_t stride = 1, int64_t groups = 1) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).groups(groups).bias(false));
}

int64_t channelsAfter(int64_t channels, const ResNetConfig &config) {
  return config.bottleneck ? 4 * channels : channels;
}

/// Adds what two or three convolutions make of the input to the input itself.
struct BlockImpl : nn::Module {
  BlockImpl(int64_t in, int64_t channels, int64_t stride, const ResNetConfig &config) {
    const int64_t out = channelsAfter(channels, config);
    if (config.bottleneck) { // 1x1 convolutions reduce the channels before the 3x3 one, and widen them again
      const int64_t width = channels * config.widthPerGroup / 64 * config.groups;
      add(conv1x1(in, width));
      add(conv3x3(width, width, stride, config.groups));
      add(conv1x1(width, out));
    } else {
      add(conv3x3(in, out, stride));
      add(conv3x3(out, out));
    }
    if (stride != 1 || in != out) // the sum needs one size
      downsample =
          register_module("downsample", nn::Sequential(conv1x1(in, out, stride), nn::BatchNorm2d(out)));
  }

  void add(const nn::Conv2d &conv) {
    const std::string number = std::to_string(convs.size() + 1);
    convs.push_back(register_module("conv" + number, conv));
    norms.push_back(register_module("bn" + number, nn::BatchNorm2d(conv->options.out_channels())));
  }

  Tensor forward(const Tensor &x) {
    Tensor y = norms[0](convs[0](x));
    for (size_t i = 1; i < convs.size(); ++i)
      y = norms[i](convs[i](y.relu_()));
    y += downsample ? downsample->forward(x) : x;
    return y.relu_();
  }

  std::vector<nn::Conv2d> convs;
  std::vector<nn::BatchNorm2d> norms;
  nn::Sequential downsample{nullptr};
};
TORCH_MODULE(Block);

} // namespace

ResNetImpl::ResNetImpl(const ResNetConfig &config)
    : conv1(
          register_module("conv1", nn::Conv2d(nn::Conv2dOptions(3, 64, 7).stride(2).padding(3).bias(false)))),
      bn1(register_module("bn1", nn::BatchNorm2d(64))) {
  int64_t in = 64;
  for (size_t i = 0; i < layers.size(); ++i) {
    register_module("layer" + std::to_string(i + 1), layers[i]);
    const int64_t channels = 64 << i;
    for (int64_t block = 0; block < config.blocks[i]; ++block) {
      layers[i]->push_back(Block(in, channels, i > 0 && block == 0 ? 2 : 1, config));
      in = channelsAfter(channels, config);
    }
  }
  fc = register_module("fc", nn::Linear(in, config.classes));
  for (const auto &module : modules(/*include_self=*/false))
    if (auto *conv = module->as<nn::Conv2dImpl>()) // weights that keep the size of gradients
      nn::init::kaiming_normal_(conv->weight, /*a=*/0, torch::kFanOut, torch::kReLU);
}

Tensor ResNetImpl::forward(Tensor images) {
  Tensor x = bn1(conv1(images)).relu_();
  x = torch::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
  for (nn::Sequential &layer : layers)
    x = layer->forward(x);
  x = torch::adaptive_avg_pool2d(x, {1, 1});
  return fc(x.flatten(1));
}

} // namespace zoo
