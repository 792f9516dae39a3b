// tinygrad/tinygrad#16618.  The function updates parameters in place and returns only a loss.
// Every call must update them, and the next call must see the update.
#include "case.h"
CASE(c092) {
  using namespace torch;
  auto make = [](Tensor w, Tensor hist) {
    return [w, hist](Tensor x, Tensor y) mutable {
      Tensor e = x.matmul(w) - y;
      Tensor g = x.t().matmul(e) * (2.0 / x.size(0));
      w.sub_(g * 0.1);
      hist.slice(0, 1).copy_(hist.slice(0, 0, -1).clone());
      hist[0].copy_(e.pow(2).mean());
      return e.pow(2).mean();
    };
  };
  NoGradGuard n;
  Tensor w = torch::zeros({5, 1}), v = torch::zeros({5, 1}), hw = torch::zeros(4), hv = torch::zeros(4);
  auto f = graphopt::compile(make(w, hw));
  auto ref = make(v, hv);
  double last = 1e9;
  for (int i = 0; i < 10; ++i) {
    Tensor x = cases::ramp({16, 5}, -1, 1).add(0.05 * i).sin(), y = x.sum(1, true);
    Tensor got = f(x, y), want = ref(x, y);
    CHECK_THAT(cases::close(got, want) && cases::close(w, v) && cases::close(hw, hv));
    if (i == 9)
      CHECK_THAT(got.item<double>() < last);
    if (i == 0)
      last = got.item<double>();
  }
}
