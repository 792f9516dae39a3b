// ResNet (He et al., 2015, https://arxiv.org/abs/1512.03385), with the names of torchvision's resnet18 and
// resnet50 (the stride of a bottleneck is in its 3x3 convolution).
#pragma once
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <array>

namespace zoo {

struct ResNetConfig {
  bool bottleneck = false; ///< blocks of three convolutions (50 layers and more) instead of two
  std::array<int64_t, 4> blocks{2, 2, 2, 2};
  int64_t classes = 1000;
  int64_t groups = 1, widthPerGroup = 64; ///< of a bottleneck's 3x3 convolution; ResNeXt has many groups
};
inline constexpr ResNetConfig kResNet18{};
inline constexpr ResNetConfig kResNet50{.bottleneck = true, .blocks = {3, 4, 6, 3}};
inline constexpr ResNetConfig kResNet10{.blocks = {1, 1, 1, 1}, .classes = 10};
inline constexpr ResNetConfig kResNeXt14{
    .bottleneck = true, .blocks = {1, 1, 1, 1}, .classes = 10, .groups = 8, .widthPerGroup = 8};

struct ResNetImpl : torch::nn::Module {
  explicit ResNetImpl(const ResNetConfig &config = {});
  /// Images [batch, 3, height, width] -> logits [batch, classes].
  torch::Tensor forward(torch::Tensor images);

  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d bn1;
  std::array<torch::nn::Sequential, 4> layers; ///< "layer1" to "layer4": each of blocks at one resolution
  torch::nn::Linear fc{nullptr};
};
TORCH_MODULE(ResNet);

} // namespace zoo
