// See zoo.h. A row has a size that a small machine runs in seconds; the tool's --input gives another.
#include "zoo/zoo.h"

#include "zoo/bert.h"
#include "zoo/gpt2.h"
#include "zoo/lstm_lm.h"
#include "zoo/mlp.h"
#include "zoo/resnet.h"
#include "zoo/vit.h"

#include <algorithm>

namespace zoo {
namespace {

Sample floats(std::vector<int64_t> sizes) { return {torch::kFloat, std::move(sizes), 0}; }
Sample ids(std::vector<int64_t> sizes, int64_t below) { return {torch::kLong, std::move(sizes), below}; }

/// Makes a new module of this configuration.
template <class Module, const auto &config> graphopt::plugin::Instance *make() {
  return graphopt::plugin::makeModule<Module>(config);
}

/// "f32[8,3,224,224]", "i64[2,24]:0..500": a text of --input.
std::string toText(const Sample &sample) {
  const bool isFloat = sample.dtype == torch::kFloat;
  std::string text = isFloat ? "f32[" : "i64[";
  for (size_t i = 0; i < sample.sizes.size(); ++i)
    text += (i ? "," : "") + std::to_string(sample.sizes[i]);
  return text + (isFloat ? "]" : "]:0.." + std::to_string(sample.below));
}

std::string toText(const std::vector<Sample> &samples) {
  std::string text;
  for (const Sample &sample : samples)
    text += (text.empty() ? "" : " ") + toText(sample);
  return text;
}

} // namespace

const std::vector<Row> &rows() {
  // clang-format off: a table
  static const std::vector<Row> all = {
      {"mlp", "8 linear layers of 256", make<Mlp, kMlp>, {floats({64, 256})}, ids({64}, 256)},
      {"resnet10", "4 blocks, 10 classes", make<ResNet, kResNet10>, {floats({4, 3, 32, 32})}, ids({4}, 10)},
      {"resnext14", "4 blocks, 10 classes", make<ResNet, kResNeXt14>, {floats({4, 3, 32, 32})}, ids({4}, 10)},
      {"resnet18", "ResNet-18", make<ResNet, kResNet18>, {floats({8, 3, 224, 224})}, ids({8}, 1000)},
      {"resnet50", "ResNet-50", make<ResNet, kResNet50>, {floats({8, 3, 224, 224})}, ids({8}, 1000)},
      {"vit-tiny", "3 layers of 96, 10 classes", make<Vit, kVitTiny>, {floats({2, 3, 64, 64})}, ids({2}, 10)},
      {"vit-b16", "ViT-B/16", make<Vit, kVitB16>, {floats({8, 3, 224, 224})}, ids({8}, 1000)},
      {"gpt2-tiny", "2 layers of 128", make<Gpt2, kGpt2Tiny>, {ids({2, 24}, 500)}, ids({2, 24}, 500)},
      {"gpt2", "GPT-2, 124M parameters", make<Gpt2, kGpt2Small>, {ids({1, 256}, 50257)}, ids({1, 256}, 50257)},
      {"bert-tiny", "2 layers of 128", make<Bert, kBertTiny>, {ids({2, 24}, 500)}, ids({2, 24}, 500)},
      {"bert-base", "BERT-base, a masked language model", make<Bert, kBertBase>, {ids({2, 128}, 30522)}, ids({2, 128}, 30522)},
      {"bert-classifier-tiny", "2 layers of 128, 2 classes", make<BertClassifier, kBertTiny>, {ids({2, 24}, 500)}, ids({2}, 2)},
      {"bert-classifier", "BERT-base, 2 classes", make<BertClassifier, kBertBase>, {ids({2, 128}, 30522)}, ids({2}, 2)},
      {"lstm-lm-tiny", "2 layers of 64", make<LstmLm, kLstmLmTiny>, {ids({2, 24}, 500)}, ids({2, 24}, 500)},
      {"lstm-lm", "LSTM language model, 2 layers of 650", make<LstmLm, kLstmLm>, {ids({64, 64}, 10000)}, ids({64, 64}, 10000)},
  };
  // clang-format on
  return all;
}

const Row *find(std::string_view name) {
  const auto found =
      std::find_if(rows().begin(), rows().end(), [&](const Row &row) { return row.name == name; });
  return found == rows().end() ? nullptr : &*found;
}

at::Tensor draw(const Sample &sample) {
  if (sample.dtype == torch::kLong)
    return at::randint(sample.below, sample.sizes, sample.dtype);
  return at::randn(sample.sizes, sample.dtype);
}

at::Tensor loss(const at::Tensor &logits, const at::Tensor &targets) {
  return at::cross_entropy_loss(logits.flatten(0, -2), targets.flatten());
}

std::span<const graphopt::plugin::Descriptor> descriptors() {
  static const std::vector<std::string> inputs = [] {
    std::vector<std::string> texts;
    for (const Row &row : rows())
      texts.push_back(toText(row.inputs));
    return texts;
  }();
  static const std::vector<graphopt::plugin::Descriptor> all = [] {
    std::vector<graphopt::plugin::Descriptor> descriptors;
    for (size_t i = 0; i < rows().size(); ++i)
      descriptors.push_back(
          {graphopt::plugin::kVersion, rows()[i].name, rows()[i].make, rows()[i].help, inputs[i].c_str()});
    return descriptors;
  }();
  return all;
}

} // namespace zoo
