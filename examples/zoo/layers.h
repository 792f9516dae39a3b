// What the transformers of the zoo share: attention heads, and the weights that training begins with.
#pragma once
#include <torch/nn/module.h>

namespace zoo {

/// [batch, length, width] as [batch, heads, length, width / heads]: what scaled_dot_product_attention takes.
inline torch::Tensor splitHeads(const torch::Tensor &x, int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

/// The way back.
inline torch::Tensor mergeHeads(const torch::Tensor &x) { return x.transpose(1, 2).flatten(2); }

/// Draws matrices and embeddings from normal(0, 0.02), and makes biases 0: how BERT and GPT-2 begin.
void drawNormal(torch::nn::Module &module);

} // namespace zoo
