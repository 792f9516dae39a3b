// pytorch/pytorch#96136.  With recomputation on, batch norm statistics, counters and the random
// generator advance once per forward, not again in the backward.
#include "case.h"
namespace c097 {
struct BlockImpl : torch::nn::Module {
  torch::nn::Linear a{4, 8};
  torch::nn::BatchNorm1d n{8};
  torch::Tensor calls;
  BlockImpl() {
    register_module("a", a);
    register_module("n", n);
    calls = register_buffer("calls", torch::zeros({}, torch::kLong));
  }
  torch::Tensor forward(torch::Tensor x) {
    calls.add_(1);
    return torch::dropout(torch::gelu(n(a(x))), 0.3, true).pow(2).sum(1);
  }
};
TORCH_MODULE(Block);
} // namespace c097
CASE(c097) {
  using namespace torch;
  auto work = [](bool compiled, std::vector<Tensor> &state) {
    manual_seed(8);
    c097::Block m;
    auto f = graphopt::compile(m); // with recomputation enabled
    for (int i = 0; i < 5; ++i) {
      Tensor x = cases::ramp({6, 4}, -1, 1 + i).requires_grad_();
      Tensor drawn[2];
      for (int backward = 0; backward < 2; ++backward) {
        manual_seed(40 + i);
        Tensor y = compiled ? f(x) : m->forward(x);
        if (backward)
          y.sum().backward();
        drawn[backward] = torch::rand({2});
      }
      CHECK_THAT(equal(drawn[0], drawn[1])); // the backward draws nothing
    }
    if (compiled)
      CHECK_THAT(ranCompiledBackward(f));
    for (auto &p : m->parameters())
      state.push_back(p.grad());
    for (auto &b : m->buffers())
      state.push_back(b.clone());
  };
  std::vector<Tensor> want, got;
  work(false, want);
  work(true, got);
  for (size_t i = 0; i < want.size(); ++i)
    CHECK_THAT(cases::close(got[i], want[i], 1e-4, 1e-6));
  CHECK_THAT(got.back().scalar_type() == kLong);
}
