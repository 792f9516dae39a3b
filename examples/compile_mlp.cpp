// Compile a C++ module for inference: the first call is recorded, later ones run the plan.
#include <graphopt/graphopt.h>

#include <iostream>
#include <torch/torch.h>

struct MlpImpl : torch::nn::Module {
  torch::nn::Linear hidden{nullptr}, output{nullptr};
  MlpImpl() {
    hidden = register_module("hidden", torch::nn::Linear(64, 256));
    output = register_module("output", torch::nn::Linear(256, 10));
  }
  torch::Tensor forward(torch::Tensor x) { return output(torch::gelu(hidden(x))); }
};
TORCH_MODULE(Mlp);

int main() {
  torch::NoGradGuard noGrad;
  Mlp model;
  auto fast = graphopt::compile(model, {.replay = graphopt::Replay::trusted});
  for (int64_t batch : {8, 8, 8, 32}) { // 32: sizes are guarded, so another variant is recorded
    torch::Tensor x = torch::randn({batch, 64});
    if (!torch::equal(fast(x), model(x)))
      return 1;
  }
  std::cout << fast.explain();
}
