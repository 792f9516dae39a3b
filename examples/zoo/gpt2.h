// GPT-2 (Radford et al., 2019), with the names of transformers' GPT2LMHeadModel.
#pragma once
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

namespace zoo {

struct Gpt2Config {
  int64_t vocabulary = 50257, positions = 1024; ///< positions: the longest text
  int64_t width = 768, layers = 12, heads = 12;
  double dropout = 0.1;
};
inline constexpr Gpt2Config kGpt2Small{}; // 124M parameters
inline constexpr Gpt2Config kGpt2Tiny{
    .vocabulary = 500, .positions = 64, .width = 128, .layers = 2, .heads = 4};

/// Embeddings of tokens and positions, the blocks, and a last normalisation.
struct Gpt2TransformerImpl : torch::nn::Module {
  explicit Gpt2TransformerImpl(const Gpt2Config &config);
  torch::Tensor forward(torch::Tensor ids);

  torch::nn::Embedding wte, wpe;
  torch::nn::Dropout drop;
  torch::nn::Sequential h;
  torch::nn::LayerNorm lnF;
};
TORCH_MODULE(Gpt2Transformer);

/// The language model. Its head is the token embedding itself: there is no lm_head.weight.
struct Gpt2Impl : torch::nn::Module {
  explicit Gpt2Impl(const Gpt2Config &config = {});
  /// Token numbers i64[batch, length] -> logits of the next token [batch, length, vocabulary].
  torch::Tensor forward(torch::Tensor ids);

  Gpt2Transformer transformer;
};
TORCH_MODULE(Gpt2);

} // namespace zoo
