// pytorch/pytorch#198095.  The second argument is a view with offset of the first, which is
// written; the result is a view of the second.  It must show the right elements and share
// memory with the caller's tensor.
#include "case.h"
CASE(c077) {
  using namespace torch;
  auto model = [](Tensor t0, Tensor ta) {
    t0.add_(100);
    return std::vector<Tensor>{ta[0], ta.reshape({-1}), t0.t()};
  };
  auto f = graphopt::compile(model);
  for (int call = 0; call < 2; ++call) {
    Tensor a = torch::arange(24., kDouble).reshape({4, 6}), b = a.clone();
    auto want = model(a, a.slice(0, 1)), got = f(b, b.slice(0, 1));
    for (int i = 0; i < 3; ++i)
      CHECK_THAT(equal(want[i], got[i]) && want[i].strides() == got[i].strides());
    CHECK_THAT(equal(a, b));
    CHECK_THAT(got[0].data_ptr() == b[1].data_ptr() && got[2].data_ptr() == b.data_ptr());
    b[1].fill_(-1);
    CHECK_THAT(got[0].eq(-1).all().item<bool>());
  }
}
