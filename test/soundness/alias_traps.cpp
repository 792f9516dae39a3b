// Several tensors over one memory: as arguments, as state, through views that move, and found out by asking.
#include "trap.h"

#include <memory>

namespace graphopt::soundness {
namespace {
using Tensors = std::vector<Tensor>;
} // namespace

TRAP(Alias, SameTensorTwice) {
  auto f = run.compile([](Tensor x, Tensor y) {
    x.add_(1);
    return x * y;
  });
  run.calls([&](int call) {
    Tensor x = run.in("x", run.randn({3})), y = run.in("y", call % 3 == 0 ? run.randn({3}) : x);
    run.see("z", f(x, y));
  });
}

TRAP(Alias, SameTensorTwiceOnlyRead) {
  auto f = run.compile([](Tensor x, Tensor y) { return Tensors{x * y, x, y}; });
  run.calls([&](int call) {
    Tensor x = run.in("x", run.randn({3})), y = run.in("y", call % 3 == 0 ? x : run.randn({3}));
    run.see("z", f(x, y));
  });
}

TRAP(Alias, OverlappingInputs) {
  auto f = run.compile([](Tensor x, Tensor y) {
    x.mul_(2);
    y.add_(10);
    return x.sum() + y.sum();
  });
  run.calls([&](int call) {
    Tensor base = run.in("base", run.randn({8}));
    Tensor x = base.slice(0, 0, 4), y = call % 2 ? base.slice(0, 2, 6) : base.slice(0, 4, 8);
    run.see("z", f(run.in("x", x), run.in("y", y)));
  });
}

TRAP(Alias, OverlapWithState) {
  Tensor state = torch::zeros({4});
  run.watch("state", state);
  auto f = run.compile([state](Tensor x) {
    state.add_(1);
    return x * 2 + state;
  });
  run.calls([&](int call) { run.see("y", f(call % 3 == 0 ? state.view({4}) : run.randn({4}))); });
}

TRAP(Alias, SharingOfStateChanges) {
  auto state = std::make_shared<Tensors>(Tensors{torch::zeros({3}), torch::ones({3})});
  run.watch("first", [state] { return (*state)[0]; });
  run.watch("second", [state] { return (*state)[1]; });
  auto f = run.compile([state](Tensor x) {
    (*state)[0].add_(x);
    return (*state)[1] * 2;
  });
  run.calls([&](int call) {
    if (call == 4)
      (*state)[1] = (*state)[0].view({3});
    if (call == 7)
      (*state)[1] = torch::ones({3});
    run.see("y", f(run.randn({3})));
  });
}

TRAP(Alias, TwoWindowsOfOneBase) {
  Tensor base = run.randn({16});
  run.watch("base", base);
  auto f = run.compile([](Tensor x, Tensor y) {
    x.mul_(0.5);
    y.add_(x.sum());
    return x + y;
  });
  run.calls([&](int call) {
    const int64_t i = call % 3, j = call * 5 % 7; // apart, touching, overlapping, equal
    run.see("z", f(base.slice(0, i, i + 4), base.slice(0, j, j + 4)));
  });
}

TRAP(Alias, TwoWindowsOnlyRead) {
  Tensor base = run.randn({16});
  auto f = run.compile([](Tensor x, Tensor y) {
    Tensor z = x * 2;
    return Tensors{z * y, x.view({2, 2}), y.slice(0, 1)};
  });
  run.calls([&](int call) {
    const int64_t i = call % 3, j = call * 5 % 7;
    Tensors z = f(run.in("x", base.slice(0, i, i + 4)), run.in("y", base.slice(0, j, j + 4)));
    run.see("z", z);
  });
}

TRAP(Alias, WindowThatMovesInsideTheCall) {
  Tensor base = run.randn({12});
  run.watch("base", base);
  auto f = run.compile([base, position = int64_t(0)](Tensor x) mutable {
    position = (position + 5) % 8;
    Tensor window = base.slice(0, position, position + 4);
    window.copy_(x + window * 0.5);
    return window.sum() + base[0];
  });
  run.calls([&](int) { run.see("y", f(run.randn({4}))); });
}

TRAP(Alias, BlobOverAParameter) {
  run.needsHost();
  Tensor w = run.randn({3}),
         blob = torch::from_blob(w.data_ptr<float>(), {3}); // another storage, the same memory
  run.watch("w", w);
  auto f = run.compile([w, blob](Tensor x) {
    Tensor before = blob * 2;
    w.add_(x);
    Tensor between = blob * 2;
    blob.mul_(2);
    return Tensors{before, between, w + 0};
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Alias, PendingWriteThroughAView) {
  run.needsHost();
  Tensor w = run.randn({4});
  run.watch("w", w);
  auto f = run.compile([w](Tensor x) {
    w.slice(0, 1, 3).add_(1);
    const float second = w.data_ptr<float>()[1];
    w.view({2, 2}).t().mul_(0.5);
    const float last = w.const_data_ptr<float>()[3];
    return x * second + last;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Alias, ReadThroughAViewMadeInTheCall) {
  run.needsHost();
  auto f = run.compile([](Tensor x) {
    Tensor y = x * 2, view = y.t().slice(0, 1);
    y.add_(1);
    const float first = view.const_data_ptr<float>()[0];
    view.mul_(3);
    const float again = y.const_data_ptr<float>()[1];
    return Tensors{y * first, view + again};
  });
  run.calls([&](int) { run.see("y", f(run.randn({2, 3}))); });
}

TRAP(Alias, QuestionsOfIdentity) {
  auto f = run.compile([](Tensor x) {
    Tensor y = x * 2;
    const bool answers[] = {y.add_(1).is_same(y),
                            y.to(at::kFloat).is_same(y),
                            y.contiguous().is_same(y),
                            y.view({3}).is_same(y),
                            torch::dropout(y, 0.5, false).is_same(y),
                            y.expand({3}).is_same(y),
                            y.detach().is_same(y),
                            y.is_same(x),
                            y.reshape({3}).is_alias_of(y),
                            y.clone().is_alias_of(y)};
    std::string text;
    for (const bool answer : answers)
      text += answer ? '1' : '0';
    return std::pair<std::string, Tensor>(text, y * 1);
  });
  run.calls([&](int) {
    auto [text, y] = f(run.randn({3}));
    run.see("text", text);
    run.see("y", y);
  });
}

TRAP(Alias, SharingDecidesThePath) {
  auto f = run.compile([](Tensor x, Tensor y) {
    Tensor z = x * 2;
    return x.is_alias_of(y) || x.is_same(y) ? z + 1 : z - y;
  });
  run.calls([&](int call) {
    Tensor x = run.randn({3});
    run.see("y", f(x, call % 3 == 0 ? x.view({3}) : run.randn({3})));
  });
}

} // namespace graphopt::soundness
