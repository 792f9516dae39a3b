// The medium LSTM language model of Zaremba et al., 2014 (https://arxiv.org/abs/1409.2329), batch first.
#pragma once
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

namespace zoo {

struct LstmLmConfig {
  int64_t vocabulary = 10000, width = 650, layers = 2;
  double dropout = 0.5;
};
inline constexpr LstmLmConfig kLstmLm{};
inline constexpr LstmLmConfig kLstmLmTiny{.vocabulary = 500, .width = 64};

struct LstmLmImpl : torch::nn::Module {
  explicit LstmLmImpl(const LstmLmConfig &config = {});
  /// Token numbers i64[batch, length] -> logits of the next token [batch, length, vocabulary].
  torch::Tensor forward(torch::Tensor ids);

  torch::nn::Embedding embed;
  torch::nn::LSTM rnn;
  torch::nn::Dropout drop;
  torch::nn::Linear head;
};
TORCH_MODULE(LstmLm);

} // namespace zoo
