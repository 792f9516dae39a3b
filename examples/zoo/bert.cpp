// See bert.h. An encoder: each token sees all others. The public model has a class for every level of its
// parameters' names ("attention.output.dense"); here these levels are modules without code.
#include "zoo/bert.h"

#include "zoo/layers.h"

namespace zoo {

using torch::Tensor;
namespace nn = torch::nn;

namespace {

/// A module that only puts its name before its children's.
nn::Module &level(nn::Module &parent, const char *name) {
  return *parent.register_module(name, std::make_shared<nn::Module>());
}

nn::LayerNorm layerNorm(int64_t width) { return nn::LayerNorm(nn::LayerNormOptions({width}).eps(1e-12)); }

/// Attention, then an MLP for each token; each adds to its input and normalises the sum.
struct LayerImpl : nn::Module {
  explicit LayerImpl(const BertConfig &config) : heads(config.heads), dropoutP(config.dropout) {
    nn::Module &attention = level(*this, "attention");
    nn::Module &self = level(attention, "self");
    query = self.register_module("query", nn::Linear(config.width, config.width));
    key = self.register_module("key", nn::Linear(config.width, config.width));
    value = self.register_module("value", nn::Linear(config.width, config.width));
    nn::Module &attended = level(attention, "output");
    projection = attended.register_module("dense", nn::Linear(config.width, config.width));
    attentionNorm = attended.register_module("LayerNorm", layerNorm(config.width));
    up = level(*this, "intermediate").register_module("dense", nn::Linear(config.width, config.mlpWidth));
    nn::Module &output = level(*this, "output");
    down = output.register_module("dense", nn::Linear(config.mlpWidth, config.width));
    norm = output.register_module("LayerNorm", layerNorm(config.width));
    dropout = register_module("dropout", nn::Dropout(config.dropout));
  }
  Tensor forward(const Tensor &x, const std::optional<Tensor> &mask) {
    const Tensor attended = torch::scaled_dot_product_attention(
        splitHeads(query(x), heads), splitHeads(key(x), heads), splitHeads(value(x), heads), mask,
        is_training() ? dropoutP : 0.0);
    const Tensor y = attentionNorm(dropout(projection(mergeHeads(attended))) + x);
    return norm(dropout(down(torch::gelu(up(y)))) + y);
  }
  int64_t heads;
  double dropoutP;
  nn::Linear query{nullptr}, key{nullptr}, value{nullptr}, projection{nullptr}, up{nullptr}, down{nullptr};
  nn::LayerNorm attentionNorm{nullptr}, norm{nullptr};
  nn::Dropout dropout;
};
TORCH_MODULE(Layer);

} // namespace

BertModelImpl::BertModelImpl(const BertConfig &config) {
  nn::Module &embeddings = level(*this, "embeddings");
  words = embeddings.register_module(
      "word_embeddings", nn::Embedding(nn::EmbeddingOptions(config.vocabulary, config.width).padding_idx(0)));
  positions =
      embeddings.register_module("position_embeddings", nn::Embedding(config.positions, config.width));
  types = embeddings.register_module("token_type_embeddings", nn::Embedding(config.types, config.width));
  norm = embeddings.register_module("LayerNorm", layerNorm(config.width));
  dropout = embeddings.register_module("dropout", nn::Dropout(config.dropout));
  positionIds = embeddings.register_buffer("position_ids", torch::arange(config.positions).unsqueeze(0));
  typeIds = embeddings.register_buffer("token_type_ids", torch::zeros({1, config.positions}, torch::kLong));
  level(*this, "encoder").register_module("layer", layers);
  for (int64_t i = 0; i < config.layers; ++i)
    layers->push_back(Layer(config));
}

Tensor BertModelImpl::embed(const Tensor &ids) {
  const int64_t length = ids.size(1);
  Tensor x = words(ids) + types(typeIds.slice(1, 0, length).expand({ids.size(0), length}));
  x += positions(positionIds.slice(1, 0, length));
  return dropout(norm(x));
}

Tensor BertModelImpl::forward(Tensor ids, std::optional<Tensor> mask) {
  // [batch, 1, 1, length]: of every head and token
  if (mask)
    mask = mask->unsqueeze(1).unsqueeze(2).to(torch::kBool);
  Tensor x = embed(ids);
  for (size_t i = 0; i < layers->size(); ++i)
    x = layers->at<LayerImpl>(i).forward(x, mask);
  return x;
}

BertImpl::BertImpl(const BertConfig &config) : bert(register_module("bert", BertModel(config))) {
  nn::Module &predictions = level(level(*this, "cls"), "predictions");
  bias = predictions.register_parameter("bias", torch::zeros({config.vocabulary}));
  nn::Module &head = level(predictions, "transform");
  transform = head.register_module("dense", nn::Linear(config.width, config.width));
  transformNorm = head.register_module("LayerNorm", layerNorm(config.width));
  drawNormal(*this);
}

Tensor BertImpl::forward(Tensor ids, std::optional<Tensor> mask) {
  const Tensor x = bert(ids, mask);
  return torch::linear(transformNorm(torch::gelu(transform(x))), bert->words->weight, bias);
}

BertClassifierImpl::BertClassifierImpl(const BertConfig &config)
    : bert(register_module("bert", BertModel(config))),
      dropout(register_module("dropout", nn::Dropout(config.dropout))),
      classifier(register_module("classifier", nn::Linear(config.width, config.labels))) {
  pooler = level(*bert, "pooler").register_module("dense", nn::Linear(config.width, config.width));
  drawNormal(*this);
}

Tensor BertClassifierImpl::forward(Tensor ids, std::optional<Tensor> mask) {
  const Tensor first = bert(ids, mask).select(1, 0);
  return classifier(dropout(torch::tanh(pooler(first))));
}

} // namespace zoo
