// pytorch/pytorch#190758.  With recomputation of activations on (also at its most aggressive
// setting) the backward must use the mask of the forward: where the output is zero the
// gradient is zero, elsewhere it is the factor 1/(1-p).
#include "case.h"
CASE(c083) {
  using namespace torch;
  auto model = [](Tensor x) {
    Tensor h = dropout(gelu(x) + 3.0, 0.5, true); // h is 0 exactly where dropped
    return std::vector<Tensor>{h, (h * h).sum() + dropout(h, 0.25, true).sum()};
  };
  auto f = graphopt::compile(model); // with recomputation enabled
  for (int call = 0; call < 6; ++call) {
    manual_seed(50 + call);
    Tensor x = cases::ramp({64, 33}).requires_grad_();
    auto out = f(x);
    Tensor h = out[0];
    torch::rand({1000}); // the caller draws in between
    manual_seed(999);
    Tensor g = autograd::grad({h}, {x}, {torch::ones_like(h)}, /*retain_graph=*/true)[0];
    Tensor y = x.detach().clone().requires_grad_();
    Tensor d = autograd::grad({gelu(y) + 3.0}, {y}, {torch::ones_like(h)})[0];
    CHECK_THAT(cases::close(g, torch::where(h.detach() == 0, torch::zeros_like(d), d * 2), 1e-4, 1e-5));
    double kept = h.ne(0).to(kFloat).mean().item<double>();
    CHECK_THAT(kept > 0.4 && kept < 0.6);
    Tensor again = autograd::grad({h}, {x}, {torch::ones_like(h)})[0];
    CHECK_THAT(equal(g, again)); // a second backward sees the same mask
  }
}
