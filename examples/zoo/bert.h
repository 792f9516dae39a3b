// BERT (Devlin et al., 2018, https://arxiv.org/abs/1810.04805), with the names of transformers'
// BertForMaskedLM and BertForSequenceClassification.
#pragma once
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <optional>

namespace zoo {

struct BertConfig {
  int64_t vocabulary = 30522, positions = 512, types = 2; ///< types: of sentences
  int64_t width = 768, layers = 12, heads = 12, mlpWidth = 3072;
  int64_t labels = 2; ///< of BertClassifier
  double dropout = 0.1;
};
inline constexpr BertConfig kBertBase{};
inline constexpr BertConfig kBertTiny{
    .vocabulary = 500, .positions = 64, .width = 128, .layers = 2, .heads = 4, .mlpWidth = 256};

/// Token numbers i64[batch, length] -> hidden states [batch, length, width]: embeddings and encoder layers.
struct BertModelImpl : torch::nn::Module {
  explicit BertModelImpl(const BertConfig &config);
  /// The mask i64[batch, length], if there is one, is 0 behind a sentence's end: nothing attends to that.
  torch::Tensor forward(torch::Tensor ids, std::optional<torch::Tensor> mask = {});

  torch::nn::Embedding words{nullptr}, positions{nullptr}, types{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Dropout dropout;
  torch::nn::ModuleList layers;
  torch::Tensor positionIds, typeIds;

private:
  torch::Tensor embed(const torch::Tensor &ids);
};
TORCH_MODULE(BertModel);

/// The masked language model. Its head's matrix is the word embedding itself: there is no
/// cls.predictions.decoder.weight.
struct BertImpl : torch::nn::Module {
  explicit BertImpl(const BertConfig &config = {});
  /// -> logits [batch, length, vocabulary]
  torch::Tensor forward(torch::Tensor ids, std::optional<torch::Tensor> mask = {});

  BertModel bert;
  torch::nn::Linear transform{nullptr};
  torch::nn::LayerNorm transformNorm{nullptr};
  torch::Tensor bias;
};
TORCH_MODULE(Bert);

/// Classes of texts, from the hidden state of their first token.
struct BertClassifierImpl : torch::nn::Module {
  explicit BertClassifierImpl(const BertConfig &config = {});
  /// -> logits [batch, labels]
  torch::Tensor forward(torch::Tensor ids, std::optional<torch::Tensor> mask = {});

  BertModel bert;
  torch::nn::Linear pooler{nullptr};
  torch::nn::Dropout dropout;
  torch::nn::Linear classifier;
};
TORCH_MODULE(BertClassifier);

} // namespace zoo
