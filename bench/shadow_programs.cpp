// The programs' state lives as long as the code that uses it.
#include "bench/shadow_programs.h"

#include "capture/program.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/nn.h>

namespace graphopt::bench {
namespace {

struct Attention : torch::nn::Module {
  torch::nn::LayerNorm first{nullptr}, second{nullptr};
  torch::nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
  Attention() {
    first = register_module("first", torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})));
    second = register_module("second", torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})));
    qkv = register_module("qkv", torch::nn::Linear(8, 24));
    out = register_module("out", torch::nn::Linear(8, 8));
    up = register_module("up", torch::nn::Linear(8, 32));
    down = register_module("down", torch::nn::Linear(32, 8));
  }
  at::Tensor attend(const at::Tensor &x) {
    std::vector<at::Tensor> parts = qkv(x).chunk(3, -1);
    for (at::Tensor &part : parts)
      part = part.view({x.size(0), x.size(1), 2, 4}).transpose(1, 2);
    at::Tensor weights = at::softmax(at::matmul(parts[0], parts[1].transpose(-2, -1)) * 0.5, -1);
    return out(at::matmul(weights, parts[2]).transpose(1, 2).reshape({x.size(0), x.size(1), 8}));
  }
  at::Tensor forward(at::Tensor x) {
    x = x + attend(first(x));
    return x + down(at::gelu(up(second(x))));
  }
};

struct Residual : torch::nn::Module {
  torch::nn::Conv2d one{nullptr}, two{nullptr};
  torch::nn::BatchNorm2d normOne{nullptr}, normTwo{nullptr};
  Residual() {
    one = register_module("one", torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 4, 3).padding(1)));
    two = register_module("two", torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 4, 3).padding(1)));
    normOne = register_module("normOne", torch::nn::BatchNorm2d(4));
    normTwo = register_module("normTwo", torch::nn::BatchNorm2d(4));
    eval();
  }
  at::Tensor forward(at::Tensor x) {
    at::Tensor y = at::relu(normOne(one(x)));
    return at::relu(normTwo(two(y)) + x);
  }
};

template <class Block> Code stack(int blocks, at::Tensor x) {
  std::vector<std::shared_ptr<Block>> all;
  for (int i = 0; i < blocks; ++i)
    all.push_back(std::make_shared<Block>());
  return [all, x] {
    at::Tensor y = x;
    for (const auto &block : all)
      y = block->forward(y);
    return y;
  };
}

} // namespace

std::function<at::Tensor(const at::Tensor &)> transformerOn(int blocks) {
  std::vector<std::shared_ptr<Attention>> all;
  for (int i = 0; i < blocks; ++i)
    all.push_back(std::make_shared<Attention>());
  return [all](const at::Tensor &x) {
    at::Tensor y = x;
    for (const auto &block : all)
      y = block->forward(y);
    return y;
  };
}

Code chain(int rounds) {
  at::Tensor w = at::rand({8, 8}), x0 = at::rand({4, 8});
  return [=] {
    at::Tensor x = x0;
    for (int i = 0; i < rounds; ++i) {
      x = at::layer_norm(at::linear(x, w).relu().add(1), {8})
              .view({8, 4})
              .transpose(0, 1)
              .t()
              .reshape({4, 8});
      x = at::dropout(at::softmax(x, -1), 0.1, false).mul(0.5);
    }
    return x;
  };
}

Code sequential(int pairs) {
  torch::nn::Sequential net;
  for (int i = 0; i < pairs; ++i) {
    net->push_back(torch::nn::Linear(8, 8));
    net->push_back(torch::nn::ReLU());
  }
  at::Tensor x = at::rand({4, 8});
  return [net, x]() mutable { return net->forward(x); };
}

Code transformer(int blocks) { return stack<Attention>(blocks, at::rand({1, 4, 8})); }
Code resnet(int blocks) { return stack<Residual>(blocks, at::rand({1, 4, 6, 6})); }

Code script(int layers) {
  torch::jit::Module child("child");
  child.define("def forward(self, x):\n    return torch.sigmoid(torch.relu(x) * 0.5 + x)\n");
  torch::jit::Module parent("parent");
  std::string body = "def forward(self, x):\n";
  for (int i = 0; i < layers; ++i) {
    std::string name = "l" + std::to_string(i);
    parent.register_module(name, child);
    body += "    x = self." + name + ".forward(x)\n";
  }
  parent.define(body + "    return x\n");
  std::shared_ptr<capture::Program> program = capture::torchScriptProgram(parent);
  at::Tensor x = at::rand({4, 8});
  return [program, x] { return program->call({x}).toTensor(); };
}

} // namespace graphopt::bench
