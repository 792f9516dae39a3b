// A plugin for the tool's tests: a module with hidden state that host code keeps outside of its parameters,
// and a table in the host's own memory, stored column by column.
#include <graphopt/plugin.h>

#include <torch/nn.h>

#include <numeric>

namespace {

struct Net : torch::nn::Module {
  torch::nn::Linear layer{nullptr};
  torch::Tensor hidden = torch::zeros({4});
  std::vector<float> table;
  Net() : table(32) {
    std::iota(table.begin(), table.end(), 0.0f);
    layer = register_module("layer", torch::nn::Linear(8, 4));
  }
  torch::Tensor forward(torch::Tensor x) {
    torch::Tensor y = layer(x) + hidden + x.mm(torch::from_blob(table.data(), {8, 4}, {1, 8}));
    hidden.add_(1);
    return y;
  }
};

} // namespace

GRAPHOPT_PLUGIN(Net)
