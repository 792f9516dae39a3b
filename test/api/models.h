// Modules for the tests of the public API.
#pragma once
#include <graphopt/graphopt.h>

#include <torch/torch.h>

namespace graphopt::testing_api {

inline const CompileOptions kTrusted{.replay = Replay::trusted};

struct MlpImpl : torch::nn::Module {
  torch::nn::Linear first{nullptr}, second{nullptr};
  int calls = 0; // host code that ran
  MlpImpl() {
    first = register_module("first", torch::nn::Linear(8, 16));
    second = register_module("second", torch::nn::Linear(16, 4));
  }
  torch::Tensor forward(const torch::Tensor &x) {
    ++calls;
    return second(torch::relu(first(x)));
  }
};
TORCH_MODULE(Mlp);

/// Batch norm and dropout: training mode changes what runs and what is written.
struct NormImpl : torch::nn::Module {
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
  NormImpl() {
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    dropout = register_module("dropout", torch::nn::Dropout(0.5));
  }
  torch::Tensor forward(torch::Tensor x) { return dropout(norm(x)) + 1; }
};
TORCH_MODULE(Norm);

} // namespace graphopt::testing_api
