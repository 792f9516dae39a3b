// Memory: who shares it, who writes it, in which order; arguments of unusual layout, and memory that is
// reused.
#include "trap.h"

namespace graphopt::soundness {
namespace {
using Tensors = std::vector<Tensor>;
} // namespace

TRAP(Memory, OutputsAliasInput) {
  auto f = run.compile([](Tensor x) { return Tensors{x, x.t(), x.view({6}), x.slice(1, 1), x + 1}; });
  run.expectSteady();
  run.calls([&](int) {
    Tensor x = run.in("x", run.randn({2, 3}));
    Tensors y = f(x);
    run.see("y", y);
    y[3].fill_(7);
    run.see("x after a write into the result", x);
  });
}

TRAP(Memory, OutputsAliasParameter) {
  Tensor w = run.randn({2, 3}).set_requires_grad(run.gradients());
  run.watch("w", w);
  auto f = run.compile([w](Tensor x) { return Tensors{w, w.t(), w.detach(), w.view({3, 2}) + x}; });
  run.calls([&](int) {
    Tensors y = f(run.randn({3, 2}));
    run.see("y", y);
    y[2].mul_(0.5);
    run.backward(y[3]);
  });
}

TRAP(Memory, OutputsAliasEachOther) {
  auto f = run.compile([](Tensor x) {
    Tensor y = x * 2;
    return Tensors{y, y, y.t(), y.t().slice(0, 1), y.detach()};
  });
  run.calls([&](int) {
    Tensors y = f(run.randn({2, 3}));
    run.see("y", y);
    const at::NoGradGuard noGrad;
    y[4].zero_();
    y[3].add_(1);
    run.see("first", y[0]);
  });
}

TRAP(Memory, ViewReturnedWithoutItsBase) {
  auto f = run.compile([](Tensor x) { return (x * 2).slice(1, 1).t(); });
  run.calls([&](int) {
    Tensor y = f(run.randn({2, 3}));
    run.see("y", y);
    run.see("base", Tensor(y._base()));
  });
}

TRAP(Memory, InputWritten) {
  auto f = run.compile([](Tensor x) {
    Tensor before = x * 1;
    x.add_(1);
    Tensor between = x * 2;
    x.mul_(3);
    return Tensors{before, between, x * 1};
  });
  run.expectSteady();
  run.calls([&](int) {
    const at::NoGradGuard noGrad;
    run.see("y", f(run.in("x", run.randn({3}))));
  });
}

TRAP(Memory, NonLeafInputWritten) {
  auto f = run.compile([](Tensor x) {
    x.mul_(3).add_(1);
    return x * 2;
  });
  run.calls([&](int) {
    Tensor leaf = run.in("leaf", run.randn({3}).set_requires_grad(run.gradients())),
           x = run.in("x", leaf * 1);
    Tensor y = f(x);
    run.see("y", y);
    run.backward(y);
    run.backward(x);
  });
}

TRAP(Memory, LeafThatRequiresGradWritten) {
  run.mayRunUnmatched();
  run.mayThrow();
  auto f = run.compile([](Tensor x) { return x.mul_(3); });
  run.calls([&](int) { run.see("y", f(run.in("x", run.randn({3}).set_requires_grad(run.gradients())))); });
}

TRAP(Memory, ViewOfInputWritten) {
  auto f = run.compile([](Tensor x) {
    Tensor view = x.t().slice(0, 1), other = x[0];
    view.mul_(2);
    other.add_(x.sum());
    return Tensors{x + 0, view, other};
  });
  run.calls([&](int) { run.see("y", f(run.in("x", run.randn({2, 3})))); });
}

TRAP(Memory, InputIsAView) {
  auto f = run.compile([](Tensor x) {
    x.add_(1);
    return x.sum(0);
  });
  run.calls([&](int call) {
    Tensor base = run.in("base", run.randn({4, 6}));
    run.see("y", f(run.in("x", call % 2 ? base.t() : base.slice(0, call % 3))));
  });
}

TRAP(Memory, ParameterWritten) {
  Tensor w = run.randn({3}).set_requires_grad(run.gradients());
  run.watch("w", w);
  auto f = run.compile([w](Tensor x) {
    Tensor y = w * x;
    {
      const at::NoGradGuard noGrad;
      w.sub_(0.1);
    }
    return y.sum() + w.sum();
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Memory, WrittenAfterSavedForBackward) {
  run.mayThrow();
  auto f = run.compile([](Tensor x) {
    Tensor y = x.exp();
    y.add_(1);
    return y;
  });
  run.calls([&](int) {
    Tensor y = f(run.in("x", run.randn({3}).set_requires_grad(run.gradients())));
    run.see("y", y);
    run.backward(y); // exp needs its result, which was written
  });
}

TRAP(Memory, InnerValueWrittenAfterSavedForBackward) {
  run.mayThrow();
  auto f = run.compile([](Tensor x, Tensor w) {
    Tensor y = x.exp();
    y.select(0, 1).mul_(2);
    w.add_(y.detach()); // after the sum below has saved what it was
    return (y * 2).sum();
  });
  auto g = run.compile([](Tensor x, Tensor w) {
    Tensor y = x * w;
    w.add_(1);
    return y.sum();
  });
  run.calls([&](int) {
    Tensor x = run.in("x", run.randn({3}).set_requires_grad(run.gradients())), w = run.randn({3});
    Tensor y = f(x, w), z = g(x, w);
    run.see("y", y);
    run.see("w", w);
    run.backward(y); // exp needs its result
    run.backward(z); // the product needs w as it was
  });
}

/// What is written is a view by itself, made of an operator inside; and memory with gaps.
TRAP(Memory, ViewsAndGapsWrittenAfterSavedForBackward) {
  run.mayThrow();
  auto f = run.compile([](Tensor x, Tensor w, Tensor v) {
    Tensor y = at::tensordot(x, w, {1}, {0});
    Tensor z = y * v;
    y.add_(1);
    return z;
  });
  auto g = run.compile([](Tensor x, Tensor w) {
    Tensor h = x * w;
    x.add_(1);
    return h;
  });
  run.calls([&](int) {
    Tensor x = run.randn({3, 4}), w = run.randn({4, 2, 3}).set_requires_grad(run.gradients());
    Tensor v = run.in("v", run.randn({3, 2, 3}).set_requires_grad(run.gradients()));
    Tensor z = f(x, w, v);
    run.see("z", z);
    run.backward(z); // the product needs y
    Tensor gaps = run.randn({3, 4}).slice(1, 0, 4, 2);
    Tensor h = g(gaps, run.in("u", run.randn({3, 2}).set_requires_grad(run.gradients())));
    run.see("h", h);
    run.backward(h); // needs what the gaps' tensor held
  });
}

TRAP(Memory, ArgumentWrittenBetweenResults) {
  auto f = run.compile([](Tensor x, Tensor w) {
    Tensor h = (x * w).neg(), z = h.exp();
    const at::NoGradGuard noGrad;
    x.add_(1);
    return Tensors{h, z};
  });
  run.calls([&](int) {
    Tensor x = run.randn({3}), w = run.randn({3}).set_requires_grad(run.gradients());
    Tensors y = f(x, w);
    run.see("y", y);
    run.see("x", x);
    run.see("version", static_cast<int64_t>(x._version()));
  });
}

TRAP(Memory, ResultWrittenInPlaceInside) {
  auto f = run.compile([](Tensor x, Tensor w) {
    Tensor y = x.matmul(w);
    y.add_(1);
    y.select(0, 0).mul_(2);
    return y;
  });
  run.calls([&](int call) {
    Tensor w = run.in("w", run.randn({4, 2}).set_requires_grad(run.gradients()));
    Tensor y = f(run.in("x", run.randn({3, 4}).set_requires_grad(run.gradients())), w);
    run.see("y", y);
    if (call % 2)
      y.mul_(3);
    run.see("version", static_cast<int64_t>(y._version()));
    run.backward(y.sum());
  });
}

TRAP(Memory, ResultWrittenOutsideAfterSaved) {
  run.mayThrow();
  auto f = run.compile([](Tensor x) { return x.softmax(0); });
  run.calls([&](int call) {
    Tensor y = f(run.in("x", run.randn({3}).set_requires_grad(run.gradients())));
    run.see("y", y);
    if (call % 2)
      y.detach().zero_();
    run.backward(y);
  });
}

TRAP(Memory, LayoutsOfInputs) {
  auto f = run.compile(
      [](Tensor x) { return Tensors{x * 2, x.contiguous(), x.reshape({-1}), x.sum(0), x.clone()}; });
  run.calls([&](int call) {
    Tensor x = run.randn({3, 4});
    const Tensors layouts{x, x.t(), x.slice(1, 0, 4, 2), x[0].expand({3, 4}),
                          x.as_strided({2, 3}, {4, 1}, 2)};
    run.see("y", f(run.in("x", layouts[call % layouts.size()])));
  });
}

TRAP(Memory, ChannelsLast) {
  auto f = run.compile([](Tensor x) { return Tensors{x.relu(), x.permute({0, 2, 3, 1}), x.contiguous()}; });
  run.calls([&](int call) {
    Tensor x = run.randn({2, 3, 4, 4});
    run.see("y", f(call % 3 == 0 ? x : x.contiguous(at::MemoryFormat::ChannelsLast)));
  });
}

TRAP(Memory, ZeroSizeAndZeroDim) {
  auto f = run.compile([](Tensor x) {
    return Tensors{x * 2, x.sum(), x.unsqueeze(0), torch::cat({x.flatten(), x.flatten()})};
  });
  run.calls([&](int call) {
    const Tensors inputs{run.randn({0}), run.randn({}), run.randn({2, 0}), run.randn({1})};
    run.see("y", f(run.in("x", inputs[call % 4])));
  });
}

TRAP(Memory, UndefinedInput) {
  auto f = run.compile([](Tensor x, Tensor bias) {
    Tensor y = bias.defined() ? x + bias : x * 2;
    return Tensors{y, bias, torch::layer_norm(x, {3}, bias)};
  });
  run.calls([&](int call) { run.see("y", f(run.randn({2, 3}), call % 3 ? Tensor() : run.randn({3}))); });
}

TRAP(Memory, WriteThroughChainOfViews) {
  auto f = run.compile([](Tensor x) {
    Tensor y = x.clone();
    y.t().slice(0, 1, 5).view({2, 2, 4}).select(1, 0).mul_(-1);
    y.diagonal().fill_(3);
    y.index_put_({torch::tensor({0, 1})}, x[2]);
    return y;
  });
  run.expectSteady();
  run.calls([&](int) {
    Tensor y = f(run.in("x", run.randn({4, 6}).set_requires_grad(run.gradients())));
    run.see("y", y);
    run.backward(y);
  });
}

TRAP(Memory, ListsWrittenAfterwards) {
  run.mayThrow(); // a view of several outputs may not be written while it needs a gradient
  auto f = run.compile([](Tensor x) {
    Tensor y = x * 2;
    Tensors parts = y.split(2);
    parts[0].add_(1);
    Tensors chunks = y.t().chunk(2);
    chunks[1].mul_(3);
    y.unbind()[3].zero_();
    return Tensors{y, parts[1], chunks[0]};
  });
  run.calls(
      [&](int call) { run.see("y", f(run.randn({4, 6}).set_requires_grad(run.gradients() && call % 2))); });
}

TRAP(Memory, ListElementWrittenUnderNoGrad) {
  auto f = run.compile([](Tensor x) {
    Tensors parts = x.unbind();
    const at::NoGradGuard noGrad;
    parts[1].add_(1);
    return parts;
  });
  run.calls([&](int) { run.see("y", f(run.in("x", run.randn({3, 2})))); });
}

TRAP(Memory, OutVariants) {
  Tensor buffer = torch::zeros({3});
  run.watch("buffer", buffer);
  auto f = run.compile([buffer](Tensor x) {
    Tensor out = buffer, fresh = torch::empty({0});
    at::add_out(out, x, x, 2);
    at::mul_out(fresh, x, out);
    Tensor values = torch::empty({0}), indices = torch::empty({0}, at::kLong);
    at::max_out(values, indices, x, 0);
    return Tensors{out, fresh, values, indices};
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Memory, MetadataChangedInPlace) {
  auto f = run.compile([](Tensor x, int64_t kind) {
    Tensor y = x * 2, z = x + 1;
    switch (kind % 6) {
    case 0:
      y.resize_({3, 2});
      break;
    case 1:
      y.transpose_(0, 1);
      break;
    case 2:
      y.unsqueeze_(0);
      break;
    case 3:
      y.set_(z);
      break;
    case 4:
      y.as_strided_({2}, {3});
      break;
    default:
      y.squeeze_().t_();
    }
    return Tensors{y + 0, y, z};
  });
  run.calls([&](int call) { run.see("y", f(run.randn({2, 3}), int64_t(call))); }, 14);
}

TRAP(Memory, InputMetadataChangedInPlace) {
  auto f = run.compile([](Tensor x) {
    x.t_();
    return x.sum(0);
  });
  run.calls([&](int) { run.see("y", f(run.in("x", run.randn({2, 3})))); });
}

TRAP(Memory, ArgumentFreshEachCall) {
  auto f = run.compile([](const Tensor &x) { return x.relu() + 1; });
  run.expectSteady();
  run.calls([&](int) { run.see("y", f(run.randn({64}))); });
}

TRAP(Memory, NoOperatorThatCopies) {
  auto f = run.compile([](Tensor x) {
    return Tensors{x.to(at::kFloat), x.contiguous(),    x.reshape(x.sizes()),
                   x.expand({3}),    x.to(at::kDouble), x.alias()};
  });
  run.calls([&](int) { run.see("y", f(run.in("x", run.randn({3})))); });
}

TRAP(Memory, StateResizedBetweenCalls) {
  Tensor state = torch::zeros({3});
  run.watch("state", state);
  auto f = run.compile([state](Tensor x) { return state.add_(1).sum() + x; });
  run.calls([&](int call) {
    if (call % 3 == 0)
      state.resize_({3 + call}).fill_(2);
    if (call % 4 == 0)
      state.unsqueeze_(0).squeeze_(0);
    run.see("y", f(run.randn({2})));
  });
}

TRAP(Memory, StridesOfSizeOne) {
  auto f = run.compile(
      [](Tensor x) { return Tensors{x, x * 2, x.view({-1}), x.t(), at::empty_like(x).fill_(1)}; });
  run.calls([&](int call) {
    Tensor x = run.randn({8});
    run.see("y", f(run.in("x", call % 3 ? x.as_strided({1, 3}, {3, 1}) : x.as_strided({1, 3}, {5, 1}))));
  });
}

} // namespace graphopt::soundness
