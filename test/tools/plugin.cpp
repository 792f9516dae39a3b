// A plugin for the tool's tests: a module with hidden state that host code keeps outside of its parameters.
#include <graphopt/plugin.h>

#include <torch/nn.h>

namespace {

struct Net : torch::nn::Module {
  torch::nn::Linear layer{nullptr};
  torch::Tensor hidden = torch::zeros({4});
  Net() { layer = register_module("layer", torch::nn::Linear(8, 4)); }
  torch::Tensor forward(torch::Tensor x) {
    torch::Tensor y = layer(x) + hidden;
    hidden.add_(1);
    return y;
  }
};

} // namespace

GRAPHOPT_PLUGIN(Net)
