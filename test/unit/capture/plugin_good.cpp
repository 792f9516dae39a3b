// A plugin with a module: what a user's library looks like.
#include <ATen/ATen.h>
#include <graphopt/plugin.h>
#include <torch/csrc/api/include/torch/nn/module.h>

struct Net : torch::nn::Module {
  Net() { w = register_parameter("w", at::ones({3})); }
  at::Tensor forward(at::Tensor x, double scale) { return x.mul(w).mul(scale); }
  at::Tensor w;
};
GRAPHOPT_PLUGIN(Net)
