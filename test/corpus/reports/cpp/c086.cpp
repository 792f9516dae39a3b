// pytorch/pytorch#69031.  Two replicas (ranks) in one process, ten accumulation steps; the
// branch used differs between the steps and the ranks, one parameter is never used.  After the
// average all replicas hold the same gradient; the unused parameter has none (or zero).
// Compiled + data parallel: the same, although the last step does not touch every parameter.
#include "case.h"
namespace c086 {
struct TwoImpl : torch::nn::Module {
  torch::nn::Linear a{3, 2}, b{3, 2}, never{3, 2};
  TwoImpl() {
    register_module("a", a);
    register_module("b", b);
    register_module("never", never);
  }
  torch::Tensor forward(torch::Tensor x, bool first) { return first ? a(x) : b(x).tanh(); }
};
TORCH_MODULE(Two);
} // namespace c086
CASE(c086) {
  using namespace torch;
  auto train = [](bool compiled) {
    std::vector<c086::Two> rank(2);
    std::vector<std::function<Tensor(Tensor, bool)>> call;
    std::vector<std::function<bool()>> ranCompiled;
    for (auto &m : rank) {
      {
        NoGradGuard g;
        int k = 0;
        for (auto &p : m->parameters())
          p.copy_(cases::ramp(p.sizes().vec(), -1, 1 + 0.1 * k++));
      }
      if (compiled) {
        auto f = graphopt::compile(m);
        call.push_back([f](Tensor x, bool u) mutable { return f(x, u); });
        ranCompiled.push_back([f] { return ranCompiledBackward(f); });
      } else
        call.push_back([m](Tensor x, bool u) mutable { return m->forward(x, u); });
    }
    for (int step = 0; step < 10; ++step)
      for (int r = 0; r < 2; ++r) {
        Tensor x = cases::ramp({4, 3}, r, 1 + 0.1 * step);
        call[r](x, (step + r) % 2 == 0).pow(2).mean().backward(); // no average before the last step
      }
    for (const auto &ran : ranCompiled)
      CHECK_THAT(ran());
    auto p0 = rank[0]->parameters(), p1 = rank[1]->parameters();
    std::vector<Tensor> avg;
    for (size_t i = 0; i < p0.size(); ++i) { // the all-reduce
      Tensor g0 = p0[i].grad(), g1 = p1[i].grad();
      Tensor z = torch::zeros_like(p0[i]);
      avg.push_back(((g0.defined() ? g0 : z) + (g1.defined() ? g1 : z)) / 2);
    }
    return avg;
  };
  auto want = train(false), got = train(true);
  for (size_t i = 0; i < want.size(); ++i)
    CHECK_THAT(cases::close(got[i], want[i]));
  CHECK_THAT(want[0].abs().sum().item<double>() > 0 && want[2].abs().sum().item<double>() > 0);
  CHECK_THAT(got[4].abs().sum().item<double>() == 0);
}
