// pytorch/pytorch#183608.  Indices out of range raise an error, in the first call and later
// ones; negative values are errors for embedding and gather but valid for index().  After an
// error the callable still works and arguments are unchanged.
#include "case.h"
CASE(c090) {
  using namespace torch;
  auto emb = [](Tensor w, Tensor i) { return torch::embedding(w, i) * 2; };
  auto gat = [](Tensor w, Tensor i) { return w.gather(0, i.unsqueeze(1)) + 1; };
  auto idx = [](Tensor w, Tensor i) { return w.index({i}) + 1; };
  auto bad = [](Tensor w, Tensor i) {
    w.add_(0);
    return w.matmul(i.to(kFloat).unsqueeze(0));
  };
  auto fe = graphopt::compile(emb);
  auto fg = graphopt::compile(gat);
  auto fi = graphopt::compile(idx);
  auto fb = graphopt::compile(bad);
  Tensor w = cases::ramp({5, 2}), keep = w.clone();
  for (int round = 0; round < 2; ++round) {
    for (int64_t v : {-2, 5, 1}) {
      Tensor i = torch::tensor(std::vector<int64_t>{2, v, 4});
      bool ok = v == 1;
      CHECK_THAT(cases::throws([&] { fe(w, i); }) == !ok);
      CHECK_THAT(cases::throws([&] { fg(w, i); }) == !ok);
      CHECK_THAT(cases::throws([&] { fi(w, i); }) == (v == 5));
      CHECK_THAT(cases::throws([&] { fb(w, i); })); // shapes never fit
      if (ok)
        CHECK_THAT(equal(fe(w, i), emb(w, i)) && equal(fg(w, i), gat(w, i)));
      if (v != 5)
        CHECK_THAT(equal(fi(w, i), idx(w, i)));
      CHECK_THAT(equal(w, keep));
    }
  }
}
