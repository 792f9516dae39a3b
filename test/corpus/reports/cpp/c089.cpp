// pytorch/xla#3291.  Views taken inside and outside of the function keep sharing memory with
// their base after the function has been executed; writes go both ways.
#include "case.h"
CASE(c089) {
  using namespace torch;
  auto model = [](Tensor x) {
    Tensor v = x.view({10, 1});
    v[3].fill_(7);
    return v;
  };
  auto f = graphopt::compile(model);
  NoGradGuard g;
  for (int call = 0; call < 3; ++call) {
    Tensor x = torch::zeros({1, 10}), outside = x.t();
    Tensor v = f(x);
    CHECK_THAT(x[0][3].item<float>() == 7 && outside[3][0].item<float>() == 7);
    v[0][0] = 1;
    CHECK_THAT(x[0][0].item<float>() == 1);
    x.add_(1);
    CHECK_THAT(v[3][0].item<float>() == 8 && v.is_alias_of(x) && v.sizes() == IntArrayRef({10, 1}));
    Tensor w = f(outside.t()); // argument is itself a view
    w.zero_();
    CHECK_THAT(x.abs().sum().item<float>() == 0);
  }
}
