// See vit.h. An image is cut into patches; each becomes a token of a transformer's encoder.
#include "zoo/vit.h"

#include "zoo/layers.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>

namespace zoo {

using torch::Tensor;
namespace nn = torch::nn;

namespace {

nn::LayerNorm layerNorm(int64_t width) { return nn::LayerNorm(nn::LayerNormOptions({width}).eps(1e-6)); }

/// nn::MultiheadAttention under its parameters' names; LibTorch's own does without the fused operator.
struct SelfAttentionImpl : nn::Module {
  explicit SelfAttentionImpl(const VitConfig &config)
      : heads(config.heads), dropout(config.attentionDropout),
        weight(register_parameter("in_proj_weight", torch::empty({3 * config.width, config.width}))),
        bias(register_parameter("in_proj_bias", torch::zeros({3 * config.width}))),
        projection(register_module("out_proj", nn::Linear(config.width, config.width))) {
    const torch::NoGradGuard noGrad;
    const double bound = std::sqrt(6.0 / static_cast<double>(4 * config.width)); // Xavier
    weight.uniform_(-bound, bound);
    projection->bias.zero_();
  }
  Tensor forward(const Tensor &x) {
    const std::vector<Tensor> parts = torch::linear(x, weight, bias).chunk(3, -1);
    const Tensor y = torch::scaled_dot_product_attention(
        splitHeads(parts[0], heads), splitHeads(parts[1], heads), splitHeads(parts[2], heads),
        /*attn_mask=*/{}, is_training() ? dropout : 0.0);
    return projection(mergeHeads(y));
  }
  int64_t heads;
  double dropout;
  Tensor weight, bias;
  nn::Linear projection;
};
TORCH_MODULE(SelfAttention);

/// Attention, then an MLP for each token; both see a normalised input and add to what they were given.
struct EncoderBlockImpl : nn::Module {
  explicit EncoderBlockImpl(const VitConfig &config)
      : ln1(register_module("ln_1", layerNorm(config.width))),
        attention(register_module("self_attention", SelfAttention(config))),
        dropout(register_module("dropout", nn::Dropout(config.dropout))),
        ln2(register_module("ln_2", layerNorm(config.width))),
        mlp(register_module("mlp", nn::Sequential(nn::Linear(config.width, config.mlpWidth), nn::GELU(),
                                                  nn::Dropout(config.dropout),
                                                  nn::Linear(config.mlpWidth, config.width),
                                                  nn::Dropout(config.dropout)))) {}
  Tensor forward(const Tensor &input) {
    const Tensor x = dropout(attention(ln1(input))) + input;
    return x + mlp->forward(ln2(x));
  }
  nn::LayerNorm ln1;
  SelfAttention attention;
  nn::Dropout dropout;
  nn::LayerNorm ln2;
  nn::Sequential mlp;
};
TORCH_MODULE(EncoderBlock);

} // namespace

VitEncoderImpl::VitEncoderImpl(const VitConfig &config)
    : dropout(register_module("dropout", nn::Dropout(config.dropout))), ln(nullptr) {
  const int64_t side = config.image / config.patch, tokens = side * side + 1;
  positions = register_parameter("pos_embedding", torch::randn({1, tokens, config.width}) * 0.02);
  register_module("layers", layers);
  for (int64_t i = 0; i < config.layers; ++i)
    layers->push_back("encoder_layer_" + std::to_string(i), EncoderBlock(config));
  ln = register_module("ln", layerNorm(config.width));
}

Tensor VitEncoderImpl::forward(Tensor x) { return ln(layers->forward(dropout(x + positions))); }

VitImpl::VitImpl(const VitConfig &config)
    : classToken(register_parameter("class_token", torch::zeros({1, 1, config.width}))),
      projection(register_module(
          "conv_proj", nn::Conv2d(nn::Conv2dOptions(3, config.width, config.patch).stride(config.patch)))),
      encoder(register_module("encoder", VitEncoder(config))),
      heads(register_module("heads", nn::Sequential())) {
  heads->push_back("head", nn::Linear(config.width, config.classes));
}

Tensor VitImpl::forward(Tensor images) {
  const Tensor patches = projection(images).flatten(2).permute({0, 2, 1}); // [batch, patches, width]
  Tensor x = torch::cat({classToken.expand({images.size(0), -1, -1}), patches}, 1);
  x = encoder(x);
  return heads->forward(x.select(1, 0)); // the class token's
}

} // namespace zoo
