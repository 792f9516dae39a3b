// The modules that several tests of captures record.
#include "modules.h"

#include <graphopt/scope.h>
#include <torch/nn.h>

namespace graphopt::capture {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

template <class Forward>
ModuleCase caseOf(std::shared_ptr<nn::Module> module, std::vector<c10::IValue> args, Forward forward) {
  auto call = [module, forward](std::vector<c10::IValue> values) mutable {
    return c10::IValue(forward(values[0].toTensor()));
  };
  auto state = [module] {
    std::vector<NamedTensor> all;
    for (const auto &item : module->named_parameters())
      all.push_back({item.key(), item.value(), true});
    for (const auto &item : module->named_buffers())
      all.push_back({item.key(), item.value(), false});
    return all;
  };
  return {functionProgram("module", call, state), std::move(args)};
}

struct Mlp : nn::Module {
  nn::Linear fc1 = register_module("fc1", nn::Linear(4, 8));
  nn::Linear fc2 = register_module("fc2", nn::Linear(8, 2));
  Tensor forward(Tensor x) { return fc2(torch::relu(fc1(x))); }
};

struct ConvNet : nn::Module {
  nn::Conv2d conv = register_module("conv", nn::Conv2d(nn::Conv2dOptions(3, 4, 3).padding(1)));
  nn::BatchNorm2d bn = register_module("bn", nn::BatchNorm2d(4));
  nn::Linear fc = register_module("fc", nn::Linear(4, 2));
  Tensor forward(Tensor x) {
    x = torch::relu(bn(conv(x)));
    return fc(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }
};

struct Block : nn::Module {
  nn::LayerNorm ln1 = register_module("ln1", nn::LayerNorm(nn::LayerNormOptions({8})));
  nn::Linear qkv = register_module("qkv", nn::Linear(8, 24));
  nn::Linear out = register_module("out", nn::Linear(8, 8));
  nn::LayerNorm ln2 = register_module("ln2", nn::LayerNorm(nn::LayerNormOptions({8})));
  nn::Linear up = register_module("up", nn::Linear(8, 16));
  nn::Linear down = register_module("down", nn::Linear(16, 8));
  Tensor attend(Tensor x) {
    auto parts = qkv(x).chunk(3, -1);
    for (Tensor &part : parts)
      part = part.view({x.size(0), x.size(1), 2, 4}).transpose(1, 2);
    Tensor y = at::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
    return out(y.transpose(1, 2).reshape({x.size(0), x.size(1), 8}));
  }
  Tensor forward(Tensor x) {
    x = x + attend(ln1(x));
    return x + down(torch::gelu(up(ln2(x))));
  }
};

struct GruLoop : nn::Module {
  nn::GRUCell cell = register_module("cell", nn::GRUCell(4, 4));
  Tensor forward(Tensor x) {
    Tensor h = torch::zeros({x.size(0), 4});
    for (int64_t step = 0; step < x.size(1); ++step)
      h = cell(x.select(1, step), h);
    return h;
  }
};

} // namespace

ModuleCase mlp() {
  auto module = std::make_shared<Mlp>();
  return caseOf(module, {torch::randn({3, 4})}, [module](Tensor x) { return module->forward(x); });
}

ModuleCase convNet(bool training) {
  auto module = std::make_shared<ConvNet>();
  module->train(training);
  return caseOf(module, {torch::randn({2, 3, 8, 8})}, [module](Tensor x) { return module->forward(x); });
}

ModuleCase transformerBlock() {
  auto module = std::make_shared<Block>();
  return caseOf(module, {torch::randn({2, 5, 8})}, [module](Tensor x) { return module->forward(x); });
}

ModuleCase multiheadAttention() {
  nn::MultiheadAttention module(nn::MultiheadAttentionOptions(8, 2));
  return caseOf(module.ptr(), {torch::randn({5, 2, 8})},
                [module](Tensor x) mutable { return std::get<0>(module->forward(x, x, x)); });
}

ModuleCase lstm() {
  nn::LSTM module(nn::LSTMOptions(4, 6).num_layers(2));
  return caseOf(module.ptr(), {torch::randn({5, 3, 4})},
                [module](Tensor x) mutable { return std::get<0>(module->forward(x)); });
}

ModuleCase gruLoop(int64_t steps) {
  auto module = std::make_shared<GruLoop>();
  return caseOf(module, {torch::randn({2, steps, 4})}, [module](Tensor x) { return module->forward(x); });
}

ModuleCase scoped() {
  auto module = std::make_shared<Mlp>();
  return caseOf(module, {torch::randn({3, 4})}, [module](Tensor x) {
    GRAPHOPT_SCOPE("net");
    {
      GRAPHOPT_SCOPE("head");
      x = torch::relu(module->fc1(x));
    }
    return module->fc2(x);
  });
}

} // namespace graphopt::capture
