// Networks of LibTorch modules as users write them.
#include "models.h"

#include <torch/nn.h>

namespace graphopt::testmodels {

namespace {

using torch::Tensor;
namespace nn = torch::nn;

/// A program over a module: named state, training flag as given, inputs drawn after the weights.
template <class Module>
corpus::Factory factory(std::function<std::shared_ptr<Module>()> build,
                        std::function<std::vector<Tensor>()> inputs, bool train = false) {
  return [=] {
    torch::manual_seed(7);
    auto module = build();
    module->train(train);
    corpus::Instance instance;
    for (Tensor &input : inputs())
      instance.args.emplace_back(std::move(input));
    auto call = [module](std::vector<c10::IValue> args) -> c10::IValue {
      if constexpr (requires(Tensor t) { module->forward(t); })
        return module->forward(args[0].toTensor());
      else
        return module->forward(args[0].toTensor(), args[1].toTensor());
    };
    auto state = [module] {
      std::vector<capture::NamedTensor> named;
      for (const auto &item : module->named_parameters())
        named.push_back({item.key(), item.value(), true});
      for (const auto &item : module->named_buffers())
        named.push_back({item.key(), item.value(), false});
      return named;
    };
    instance.program = capture::functionProgram("model", call, state);
    return instance;
  };
}

std::function<std::vector<Tensor>()> floats(std::vector<std::vector<int64_t>> shapes) {
  return [=] {
    std::vector<Tensor> inputs;
    for (const auto &shape : shapes)
      inputs.push_back(torch::randn(shape));
    return inputs;
  };
}

struct Mlp : nn::Module {
  Mlp() {
    first = register_module("first", nn::Linear(16, 32));
    second = register_module("second", nn::Linear(32, 4));
  }
  Tensor forward(Tensor x) { return second(torch::relu(first(x))); }
  nn::Linear first{nullptr}, second{nullptr};
};

struct Cnn : nn::Module {
  Cnn() {
    conv1 = register_module("conv1", nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1).bias(false)));
    bn1 = register_module("bn1", nn::BatchNorm2d(8));
    conv2 = register_module("conv2", nn::Conv2d(nn::Conv2dOptions(8, 8, 3).padding(1)));
    bn2 = register_module("bn2", nn::BatchNorm2d(8));
    head = register_module("head", nn::Linear(8, 5));
  }
  Tensor forward(Tensor x) {
    x = bn1(conv1(x)).relu_();
    x = torch::max_pool2d(x, 2);
    x = bn2(conv2(x)).add_(x).relu_();
    return head(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }
  nn::Conv2d conv1{nullptr}, conv2{nullptr};
  nn::BatchNorm2d bn1{nullptr}, bn2{nullptr};
  nn::Linear head{nullptr};
};

/// Attention by chunk, view and transpose over at::scaled_dot_product_attention; dropout is live when
/// training.
struct Block : nn::Module {
  Block() {
    norm1 = register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({32})));
    norm2 = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({32})));
    qkv = register_module("qkv", nn::Linear(32, 96));
    out = register_module("out", nn::Linear(32, 32));
    up = register_module("up", nn::Linear(32, 64));
    down = register_module("down", nn::Linear(64, 32));
    drop = register_module("drop", nn::Dropout(0.1));
  }
  Tensor forward(Tensor x) {
    int64_t b = x.size(0), t = x.size(1);
    auto parts = qkv(norm1(x)).chunk(3, -1);
    for (auto &part : parts)
      part = part.view({b, t, 4, 8}).transpose(1, 2);
    auto y = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true);
    x = x + drop(out(y.transpose(1, 2).reshape({b, t, 32})));
    return x + drop(down(torch::gelu(up(norm2(x)))));
  }
  nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
  nn::Dropout drop{nullptr};
};

/// Registers a tensor that another module owns too.
struct TiedHead : nn::Module {
  explicit TiedHead(const Tensor &shared) { weight = register_parameter("weight", shared); }
  Tensor forward(Tensor x) { return at::linear(x, weight); }
  Tensor weight;
};

struct LanguageModel : nn::Module {
  LanguageModel() {
    embed = register_module("embed", nn::Embedding(50, 32));
    blocks = register_module("blocks", nn::ModuleList());
    for (int i = 0; i < 2; ++i)
      blocks->push_back(std::make_shared<Block>());
    head = register_module("head", std::make_shared<TiedHead>(embed->weight));
  }
  Tensor forward(Tensor ids) {
    Tensor x = embed(ids);
    for (const auto &block : *blocks)
      x = block->as<Block>()->forward(x);
    return head->forward(x);
  }
  nn::Embedding embed{nullptr};
  nn::ModuleList blocks;
  std::shared_ptr<TiedHead> head;
};

struct Recurrent : nn::Module {
  Recurrent() {
    lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(8, 12).num_layers(2).batch_first(true)));
  }
  Tensor forward(Tensor x) {
    auto [y, state] = lstm(x);
    return torch::cat({y.select(1, -1), std::get<0>(state)[1]}, 1);
  }
  nn::LSTM lstm{nullptr};
};

struct GruLoop : nn::Module {
  GruLoop() { cell = register_module("cell", nn::GRUCell(8, 12)); }
  Tensor forward(Tensor x) {
    Tensor h = torch::zeros({x.size(0), 12}, x.options());
    for (int64_t t = 0; t < x.size(1); ++t)
      h = cell(x.select(1, t), h);
    return h;
  }
  nn::GRUCell cell{nullptr};
};

struct Encoder : nn::Module {
  Encoder() {
    nn::TransformerEncoderLayerOptions layer(32, 4);
    layer.dim_feedforward(64).dropout(0.0);
    encoder = register_module("encoder", nn::TransformerEncoder(nn::TransformerEncoderOptions(layer, 2)));
  }
  Tensor forward(Tensor x) { return encoder(x); }
  nn::TransformerEncoder encoder{nullptr};
};

/// Keeps a running mean in a buffer and counts its calls.
struct Normalizer : nn::Module {
  Normalizer() {
    mean = register_buffer("mean", torch::zeros({6}));
    count = register_buffer("count", torch::zeros({}, torch::kLong));
  }
  Tensor forward(Tensor x) {
    count += 1;
    mean.lerp_(x.mean(0), 0.1);
    mean.slice(0, 0, 2).mul_(0.5);
    return x - mean;
  }
  Tensor mean, count;
};

struct TwoInputs : nn::Module {
  TwoInputs() { mix = register_module("mix", nn::Bilinear(6, 6, 4)); }
  Tensor forward(Tensor a, Tensor b) { return mix(a, b); }
  nn::Bilinear mix{nullptr};
};

template <class Module>
ModelCase plain(std::string name, std::vector<std::vector<int64_t>> shapes, bool train = false) {
  return {std::move(name),
          factory<Module>([] { return std::make_shared<Module>(); }, floats(std::move(shapes)), train)};
}

} // namespace

std::vector<ModelCase> networks() {
  auto ids = [] { return std::vector<Tensor>{torch::randint(0, 50, {2, 7})}; };
  return {
      plain<Mlp>("mlp", {{5, 16}}),
      plain<Mlp>("mlpOfThreeDimensions", {{2, 5, 16}}),
      plain<Cnn>("cnnEval", {{2, 3, 16, 16}}),
      plain<Cnn>("cnnTrain", {{2, 3, 16, 16}}, true),
      plain<Block>("transformerBlock", {{2, 6, 32}}),
      plain<Block>("transformerBlockWithDropout", {{2, 6, 32}}, true),
      {"languageModelWithTiedWeights",
       factory<LanguageModel>([] { return std::make_shared<LanguageModel>(); }, ids)},
      plain<Recurrent>("lstm", {{3, 5, 8}}),
      plain<GruLoop>("gruCellLoop", {{3, 5, 8}}),
      plain<Encoder>("transformerEncoder", {{4, 2, 32}}),
      plain<Normalizer>("buffersWritten", {{5, 6}}),
      plain<TwoInputs>("bilinear", {{3, 6}, {3, 6}}),
  };
}

} // namespace graphopt::testmodels
