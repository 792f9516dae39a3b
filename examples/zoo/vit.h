// The vision transformer (Dosovitskiy et al., 2020, https://arxiv.org/abs/2010.11929), with the names of
// torchvision's vit_b_16.
#pragma once
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/normalization.h>

namespace zoo {

struct VitConfig {
  int64_t image = 224, patch = 16; ///< sides in pixels
  int64_t layers = 12, heads = 12, width = 768, mlpWidth = 3072, classes = 1000;
  double dropout = 0, attentionDropout = 0;
};
inline constexpr VitConfig kVitB16{};
inline constexpr VitConfig kVitTiny{
    .image = 64, .patch = 8, .layers = 3, .heads = 3, .width = 96, .mlpWidth = 192, .classes = 10};

/// Position embeddings and the blocks.
struct VitEncoderImpl : torch::nn::Module {
  explicit VitEncoderImpl(const VitConfig &config);
  torch::Tensor forward(torch::Tensor x);

  torch::Tensor positions;
  torch::nn::Dropout dropout;
  torch::nn::Sequential layers;
  torch::nn::LayerNorm ln;
};
TORCH_MODULE(VitEncoder);

struct VitImpl : torch::nn::Module {
  explicit VitImpl(const VitConfig &config = {});
  /// Images [batch, 3, image, image] -> logits [batch, classes].
  torch::Tensor forward(torch::Tensor images);

  torch::Tensor classToken;
  torch::nn::Conv2d projection; ///< of a patch to a token
  VitEncoder encoder;
  torch::nn::Sequential heads;
};
TORCH_MODULE(Vit);

} // namespace zoo
