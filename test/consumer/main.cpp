// What a program outside the repository does with an installed graphopt: compile a module, call it twice, and
// find the results equal to eager's.
#include <graphopt/graphopt.h>

#include <iostream>
#include <torch/torch.h>

int main() {
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(8, 16), torch::nn::ReLU(), torch::nn::Linear(16, 4));
  model->eval();
  torch::NoGradGuard noGrad;
  auto perceptron = [model](const torch::Tensor &x) mutable { return model->forward(x); };
  auto fast = graphopt::compile(perceptron, {.replay = graphopt::Replay::trusted});
  for (int call = 0; call < 2; ++call) {
    torch::Tensor x = torch::randn({3, 8});
    if (!torch::equal(fast(x), perceptron(x))) {
      std::cerr << "the compiled module's result differs from eager's\n";
      return 1;
    }
  }
  const graphopt::Explanation explanation = fast.explain();
  std::cout << explanation;
  return explanation.counters.hits == 1 ? 0 : 1;
}
