// See gpt2.h. A decoder: each token sees those before it.
#include "zoo/gpt2.h"

#include "zoo/layers.h"

#include <cmath>

namespace zoo {

using torch::Tensor;
namespace nn = torch::nn;

namespace {

/// A linear layer with its weight as [in, out], which is how GPT-2 stores it.
struct Conv1DImpl : nn::Module {
  Conv1DImpl(int64_t in, int64_t out)
      : weight(register_parameter("weight", torch::empty({in, out}))),
        bias(register_parameter("bias", torch::zeros({out}))) {}
  Tensor forward(const Tensor &x) {
    return torch::addmm(bias, x.view({-1, x.size(2)}), weight).view({x.size(0), x.size(1), -1});
  }
  Tensor weight, bias;
};
TORCH_MODULE(Conv1D);

struct AttentionImpl : nn::Module {
  explicit AttentionImpl(const Gpt2Config &config)
      : heads(config.heads), dropout(config.dropout),
        cAttn(register_module("c_attn", Conv1D(config.width, 3 * config.width))),
        cProj(register_module("c_proj", Conv1D(config.width, config.width))),
        residualDropout(register_module("resid_dropout", nn::Dropout(config.dropout))) {}
  Tensor forward(const Tensor &x) {
    const std::vector<Tensor> parts = cAttn(x).split(x.size(2), 2);
    const Tensor y = torch::scaled_dot_product_attention(
        splitHeads(parts[0], heads), splitHeads(parts[1], heads), splitHeads(parts[2], heads),
        /*attn_mask=*/{}, is_training() ? dropout : 0.0, /*is_causal=*/true);
    return residualDropout(cProj(mergeHeads(y)));
  }
  int64_t heads;
  double dropout;
  Conv1D cAttn, cProj;
  nn::Dropout residualDropout;
};
TORCH_MODULE(Attention);

/// GELU by its tanh formula, operator by operator as the public model has it (Hendrycks and Gimpel, 2016,
/// https://arxiv.org/abs/1606.08415).
Tensor tanhGelu(const Tensor &x) {
  return 0.5 * x * (1.0 + torch::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * torch::pow(x, 3.0))));
}

struct MlpImpl : nn::Module {
  explicit MlpImpl(const Gpt2Config &config)
      : cFc(register_module("c_fc", Conv1D(config.width, 4 * config.width))),
        cProj(register_module("c_proj", Conv1D(4 * config.width, config.width))),
        dropout(register_module("dropout", nn::Dropout(config.dropout))) {}
  Tensor forward(const Tensor &x) { return dropout(cProj(tanhGelu(cFc(x)))); }
  Conv1D cFc, cProj;
  nn::Dropout dropout;
};
TORCH_MODULE(Mlp);

struct BlockImpl : nn::Module {
  explicit BlockImpl(const Gpt2Config &config)
      : ln1(register_module("ln_1", nn::LayerNorm(nn::LayerNormOptions({config.width})))),
        attn(register_module("attn", Attention(config))),
        ln2(register_module("ln_2", nn::LayerNorm(nn::LayerNormOptions({config.width})))),
        mlp(register_module("mlp", Mlp(config))) {}
  Tensor forward(Tensor x) {
    x = attn(ln1(x)) + x;
    return x + mlp(ln2(x));
  }
  nn::LayerNorm ln1;
  Attention attn;
  nn::LayerNorm ln2;
  Mlp mlp;
};
TORCH_MODULE(Block);

} // namespace

Gpt2TransformerImpl::Gpt2TransformerImpl(const Gpt2Config &config)
    : wte(register_module("wte", nn::Embedding(config.vocabulary, config.width))),
      wpe(register_module("wpe", nn::Embedding(config.positions, config.width))),
      drop(register_module("drop", nn::Dropout(config.dropout))), lnF(nullptr) {
  register_module("h", h);
  for (int64_t i = 0; i < config.layers; ++i)
    h->push_back(Block(config));
  lnF = register_module("ln_f", nn::LayerNorm(nn::LayerNormOptions({config.width})));
}

Tensor Gpt2TransformerImpl::forward(Tensor ids) {
  const Tensor positions = torch::arange(ids.size(1), ids.options()).unsqueeze(0);
  return lnF(h->forward(drop(wte(ids) + wpe(positions))));
}

Gpt2Impl::Gpt2Impl(const Gpt2Config &config)
    : transformer(register_module("transformer", Gpt2Transformer(config))) {
  drawNormal(*this);
  const torch::NoGradGuard noGrad;
  const double residual = 0.02 / std::sqrt(2.0 * static_cast<double>(config.layers));
  for (const auto &parameter : named_parameters())
    if (parameter.key().ends_with("c_proj.weight")) // their results add up along the residual path
      torch::Tensor(parameter.value()).normal_(0, residual);
}

Tensor Gpt2Impl::forward(Tensor ids) { return torch::linear(transformer(ids), transformer->wte->weight); }

} // namespace zoo
