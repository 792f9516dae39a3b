// pytorch/pytorch#111785.  A member tensor is re-pointed to another slice of a buffer before
// each call; the call writes through it.  Each slice must receive its own value.
#include "case.h"
namespace c081 {
struct CacheImpl : torch::nn::Module {
  torch::Tensor store, row;
  CacheImpl() {
    store = register_buffer("store", torch::zeros({4, 6}));
    row = store;
  }
  void select(int64_t i) { row = store.slice(0, i, i + 1); }
  torch::Tensor forward(torch::Tensor x) {
    row.copy_(x);
    return store.sum(0) + row;
  }
};
TORCH_MODULE(Cache);
} // namespace c081
CASE(c081) {
  using namespace torch;
  NoGradGuard g;
  c081::Cache a, b;
  auto f = graphopt::compile(a);
  for (int i : {0, 1, 2, 3, 1, 0}) {
    a->select(i);
    b->select(i);
    Tensor x = torch::full({1, 6}, 10.0 + i);
    CHECK_THAT(equal(f(x), b->forward(x)));
    CHECK_THAT(equal(a->store, b->store));
  }
}
