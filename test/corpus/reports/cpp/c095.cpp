// pytorch/pytorch#114338.  requires_grad of every result follows the grad mode at its own line;
// equal values must not be merged across it, nor returned as one tensor.
#include "case.h"
CASE(c095) {
  using namespace torch;
  auto model = [](Tensor x) {
    Tensor a = x + 1, b, c;
    {
      NoGradGuard n;
      b = x + 1;
    }
    {
      AutoGradMode on(true);
      c = x + 1;
    }
    return std::vector<Tensor>{a, b, c, x.detach() * 2, (x * 3).detach_()};
  };
  auto f = graphopt::compile(model);
  for (int call = 0; call < 8; ++call) {
    bool ambient = call % 2 == 0;
    AutoGradMode mode(ambient);
    Tensor x = torch::ones(4).requires_grad_();
    auto got = f(x), want = model(x);
    for (size_t i = 0; i < want.size(); ++i) {
      CHECK_THAT(equal(got[i], want[i]) && got[i].requires_grad() == want[i].requires_grad());
      for (size_t j = 0; j < i; ++j)
        CHECK_THAT(!got[i].is_alias_of(got[j]));
    }
    AutoGradMode on(true);
    CHECK_THAT(equal(autograd::grad({got[2].sum()}, {x}, {}, /*retain_graph=*/true)[0], torch::ones(4)));
    if (ambient)
      CHECK_THAT(equal(autograd::grad({got[0].sum() + got[2].sum()}, {x})[0], torch::full(4, 2)));
  }
  CHECK_THAT(GradMode::is_enabled());
}
