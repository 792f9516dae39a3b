// pytorch/pytorch#110803 (and #105653).  train()/eval() take effect in the very next call; at
// most two variants are compiled however often the mode changes.
#include "case.h"
namespace c079 {
struct NetImpl : torch::nn::Module {
  torch::nn::Linear a{4, 4};
  torch::nn::BatchNorm1d n{4};
  torch::nn::Dropout d{0.5};
  NetImpl() {
    register_module("a", a);
    register_module("n", n);
    register_module("d", d);
  }
  torch::Tensor forward(torch::Tensor x) { return d(torch::relu(n(a(x)))); }
};
TORCH_MODULE(Net);
} // namespace c079
CASE(c079) {
  using namespace torch;
  manual_seed(1);
  c079::Net net, ref;
  {
    NoGradGuard g;
    for (auto &p : net->named_parameters())
      ref->named_parameters()[p.key()].copy_(p.value());
  }
  auto f = graphopt::compile(net);
  Tensor x = cases::ramp({6, 4}, -2, 3);
  long start = 0;
  for (int i = 0; i < 24; ++i) {
    if (i == 4)
      start = compilations(); // both modes have been seen
    bool training = i % 2 == 0;
    net->train(training);
    ref->train(training);
    manual_seed(100 + i);
    Tensor got = f(x);
    manual_seed(100 + i);
    Tensor want = ref(x);
    net->zero_grad();
    ref->zero_grad();
    got.pow(2).mean().backward();
    want.pow(2).mean().backward();
    for (size_t p = 0; p < net->parameters().size(); ++p)
      CHECK_THAT(cases::close(net->parameters()[p].grad(), ref->parameters()[p].grad()));
    if (training)
      CHECK_THAT(got.eq(0).any().item<bool>()); // dropout is active
    else
      CHECK_THAT(cases::close(got, want));
    CHECK_THAT(cases::close(net->n->running_mean, ref->n->running_mean));
    CHECK_THAT(net->n->num_batches_tracked.item<int64_t>() == i / 2 + 1);
  }
  CHECK_THAT(compilations() == start);
  CHECK_THAT(ranCompiledBackward(f));
}
