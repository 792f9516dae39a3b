// A C++ module as a plugin: `graphopt verify build/release/lib/convnet.so --input f32[4,3,32,32]`. It has
// what C++ models have and exported ones lack: in-place operators, a view that is written through, a branch
// on a member, and statistics of batch norm that change in training.
#include <graphopt/plugin.h>

#include <torch/nn.h>

namespace {

struct ConvNet : torch::nn::Module {
  torch::nn::Conv2d stem{torch::nn::Conv2dOptions(3, 16, 3).padding(1).bias(false)};
  torch::nn::BatchNorm2d norm{16};
  torch::nn::Conv2d deep{torch::nn::Conv2dOptions(16, 32, 3).stride(2).padding(1)};
  torch::nn::Linear head{32, 10};
  bool mirrored = true;

  ConvNet() {
    register_module("stem", stem);
    register_module("norm", norm);
    register_module("deep", deep);
    register_module("head", head);
  }

  torch::Tensor forward(torch::Tensor images) {
    torch::Tensor x = norm(stem(images)).relu_();
    if (mirrored)
      x = x + x.flip({3});
    x.select(1, 0).mul_(0.5); // halves the first channel, through a view
    x = deep(x).relu_().mean({2, 3});
    return head(x);
  }
};

} // namespace

GRAPHOPT_PLUGIN(ConvNet)
