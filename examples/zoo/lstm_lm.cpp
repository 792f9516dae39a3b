// See lstm_lm.h.
#include "zoo/lstm_lm.h"

namespace zoo {

using torch::Tensor;
namespace nn = torch::nn;

LstmLmImpl::LstmLmImpl(const LstmLmConfig &config)
    : embed(register_module("embed", nn::Embedding(config.vocabulary, config.width))),
      rnn(register_module("rnn", nn::LSTM(nn::LSTMOptions(config.width, config.width)
                                              .num_layers(config.layers)
                                              .batch_first(true)
                                              .dropout(config.dropout)))),
      drop(register_module("drop", nn::Dropout(config.dropout))),
      head(register_module("head", nn::Linear(config.width, config.vocabulary))) {}

Tensor LstmLmImpl::forward(Tensor ids) {
  const Tensor hidden = std::get<0>(rnn(drop(embed(ids)))); // of each token; the state begins with zeros
  return head(drop(hidden));
}

} // namespace zoo
