// pytorch/pytorch#181564.  One callable under no autocast, bfloat16, float16 and again; result
// types and values follow the state at the call, and a weight changed in between is not taken
// from a cast made earlier.
#include "case.h"
#include <ATen/autocast_mode.h>
namespace c091 {
template <class F> torch::Tensor under(bool on, at::ScalarType t, F f) {
  bool was = at::autocast::is_autocast_enabled(at::kCPU);
  auto old = at::autocast::get_autocast_dtype(at::kCPU);
  at::autocast::increment_nesting();
  at::autocast::set_autocast_enabled(at::kCPU, on);
  at::autocast::set_autocast_dtype(at::kCPU, t);
  torch::Tensor r = f();
  at::autocast::set_autocast_enabled(at::kCPU, was);
  at::autocast::set_autocast_dtype(at::kCPU, old);
  if (at::autocast::decrement_nesting() == 0)
    at::autocast::clear_cache();
  return r;
}
} // namespace c091
CASE(c091) {
  using namespace torch;
  manual_seed(4);
  nn::Linear lin(6, 3);
  auto model = [lin](Tensor x) mutable { return softmax(lin->forward(x) * 1.5, 1); };
  auto f = graphopt::compile(model);
  Tensor x = cases::ramp({4, 6});
  const std::vector<std::pair<bool, ScalarType>> modes{{false, kHalf},     {true, kBFloat16}, {true, kHalf},
                                                       {false, kBFloat16}, {true, kBFloat16}, {true, kHalf}};
  for (auto [on, t] : modes) {
    Tensor got = c091::under(on, t, [&] { return f(x); }),
           want = c091::under(on, t, [&] { return model(x); });
    CHECK_THAT(cases::close(got, want, on ? 2e-2 : 1e-5, on ? 4e-3 : 1e-6));
    CHECK_THAT(got.scalar_type() == want.scalar_type());
    Tensor dGot = autograd::grad({got.pow(2).sum()}, {lin->weight})[0],
           dWant = autograd::grad({want.pow(2).sum()}, {lin->weight})[0];
    CHECK_THAT(cases::close(dGot, dWant, on ? 2e-2 : 1e-5, on ? 4e-3 : 1e-6));
    NoGradGuard g;
    lin->weight.mul_(-1.3);
  }
}
