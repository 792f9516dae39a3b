// Whole networks of LibTorch's own modules: no branch, so that after the second call nothing may be new.
#include "trap.h"

#include <torch/autograd.h>

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/loss.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/pooling.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/modules/transformerlayer.h>

namespace graphopt::soundness {
namespace {

namespace nn = torch::nn;

/// Ten training steps of a network without branches: outputs, gradients and state.
template <class Net, class MakeInput> void train(Trial &run, std::shared_ptr<Net> net, MakeInput input) {
  run.watch(net);
  auto f = run.compile(net);
  run.expectSteady();
  run.calls([&](int) {
    Tensor y = f(run.in("x", input()));
    run.see("y", y);
    run.backward(y);
    const at::NoGradGuard noGrad;
    for (Tensor &p : net->parameters())
      if (p.grad().defined()) {
        p.sub_(p.grad() * 0.01);
        p.mutable_grad().zero_();
      }
  });
}

struct Perceptron : nn::Module {
  nn::Linear a{nullptr}, b{nullptr};
  nn::LayerNorm norm{nullptr};
  nn::Dropout dropout{nullptr};
  Perceptron() {
    a = register_module("a", nn::Linear(6, 8));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({8})));
    dropout = register_module("dropout", nn::Dropout(0.3));
    b = register_module("b", nn::Linear(8, 4));
  }
  Tensor forward(Tensor x) { return torch::log_softmax(b(dropout(torch::gelu(norm(a(x))))), -1); }
};

struct Convolutional : nn::Module {
  nn::Conv2d a{nullptr}, b{nullptr};
  nn::BatchNorm2d norm{nullptr};
  Convolutional() {
    a = register_module("a", nn::Conv2d(nn::Conv2dOptions(2, 4, 3).padding(1)));
    norm = register_module("norm", nn::BatchNorm2d(4));
    b = register_module("b", nn::Conv2d(nn::Conv2dOptions(4, 4, 3).padding(1)));
  }
  Tensor forward(Tensor x) {
    Tensor y = torch::relu(norm(a(x)));
    return torch::max_pool2d(y + norm(b(y)), 2).mean({2, 3}); // the same norm twice: two updates a call
  }
};

struct Recurrent : nn::Module {
  nn::LSTM lstm{nullptr};
  nn::GRUCell cell{nullptr};
  Recurrent() {
    lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(3, 4).num_layers(2).batch_first(true)));
    cell = register_module("cell", nn::GRUCell(4, 4));
  }
  Tensor forward(Tensor x) {
    auto [sequence, state] = lstm(x);
    Tensor hidden = std::get<0>(state)[1];
    for (int64_t step = 0; step < sequence.size(1); ++step)
      hidden = cell(sequence.select(1, step), hidden);
    return hidden;
  }
};

struct Attention : nn::Module {
  nn::MultiheadAttention attention{nullptr};
  nn::TransformerEncoderLayer layer{nullptr};
  Attention() {
    attention = register_module("attention", nn::MultiheadAttention(8, 2));
    layer = register_module(
        "layer", nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(8, 2).dropout(0.2)));
  }
  Tensor forward(Tensor x) {
    auto [y, weights] = attention(x, x, x);
    return layer(y + x) * weights.mean();
  }
};

struct Language : nn::Module {
  nn::Embedding embedding{nullptr};
  nn::ModuleList blocks;
  nn::Linear head{nullptr};
  Language() {
    embedding = register_module("embedding", nn::Embedding(11, 6));
    for (int i = 0; i < 3; ++i)
      blocks->push_back(nn::Sequential(nn::LayerNorm(nn::LayerNormOptions({6})), nn::Linear(6, 12),
                                       nn::GELU(), nn::Linear(12, 6)));
    register_module("blocks", blocks);
    head = register_module("head", nn::Linear(nn::LinearOptions(6, 11).bias(false)));
    head->weight = embedding->weight;
  }
  Tensor forward(Tensor tokens) {
    Tensor x = embedding(tokens) + torch::arange(tokens.size(1)).unsqueeze(1) * 0.1;
    const Tensor mask = torch::full({tokens.size(1), tokens.size(1)}, -INFINITY).triu(1);
    for (const auto &block : *blocks) {
      x = x + torch::softmax(x.matmul(x.transpose(1, 2)) + mask, -1).matmul(x);
      x = x + block->as<nn::Sequential>()->forward(x);
    }
    return torch::nll_loss(torch::log_softmax(head(x).flatten(0, 1), 1), tokens.flatten());
  }
};

} // namespace

TRAP(Model, Perceptron) {
  train(run, std::make_shared<Perceptron>(), [&] { return run.randn({3, 6}); });
}

TRAP(Model, Convolutional) {
  train(run, std::make_shared<Convolutional>(), [&] { return run.randn({2, 2, 6, 6}); });
}

TRAP(Model, Recurrent) {
  train(run, std::make_shared<Recurrent>(), [&] { return run.randn({2, 3, 3}); });
}

TRAP(Model, Attention) {
  train(run, std::make_shared<Attention>(), [&] { return run.randn({3, 2, 8}); });
}

TRAP(Model, Language) {
  train(run, std::make_shared<Language>(),
        [&] { return (run.randn({2, 5}).abs() * 3).to(at::kLong).clamp(0, 10); });
}

TRAP(Model, Sequential) {
  auto net = std::make_shared<nn::SequentialImpl>(nn::Linear(4, 4), nn::BatchNorm1d(4), nn::ReLU(),
                                                  nn::Dropout(0.5), nn::Linear(4, 2));
  run.watch(net);
  auto f = run.compile([net](Tensor x) { return net->forward(x); });
  run.calls([&](int call) {
    net->train(call % 5 != 0);
    if (call == 4)
      net->push_back(nn::Tanh());
    Tensor y = f(run.randn({3, 4}));
    run.see("y", y);
    run.backward(y);
  });
}

TRAP(Model, LossesAndTargets) {
  auto net = std::make_shared<nn::LinearImpl>(4, 3);
  run.watch(net);
  auto f = run.compile([net](Tensor x, Tensor target) {
    Tensor y = net->forward(x);
    return torch::cross_entropy_loss(y, target) + torch::mse_loss(y, y.detach() * 0.5) + y.abs().mean() * 0.1;
  });
  run.expectSteady();
  run.calls([&](int call) {
    Tensor loss = f(run.randn({2, 4}), torch::tensor({call % 3, (call + 1) % 3}));
    run.see("loss", loss);
    run.backward(loss);
  });
}

TRAP(Model, ManyOperators) {
  auto f = run.compile([](Tensor x) {
    for (int i = 0; i < 4000; ++i)
      x = (x + 1) * 0.5;
    return x;
  });
  run.expectSteady();
  run.calls([&](int) { run.see("y", f(run.randn({2}))); }, 4);
}

TRAP(Model, GradientPenalty) {
  run.addsInAutogradsOrder();
  auto net = std::make_shared<Perceptron>();
  run.watch(net);
  auto f = run.compile(net);
  run.calls([&](int) {
    Tensor x = run.in("x", run.randn({3, 6}).set_requires_grad(run.gradients()));
    Tensor y = f(x).sum();
    Tensor g = torch::autograd::grad({y}, {x}, {}, std::nullopt, /*create_graph=*/true)[0];
    (y + g.pow(2).sum()).backward();
  });
}

} // namespace graphopt::soundness
