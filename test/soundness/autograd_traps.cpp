// Autograd inside and around compiled calls: hooks, custom functions, gradients taken in mid-call,
// optimizers.
#include "trap.h"

#include <torch/autograd.h>
#include <torch/csrc/autograd/forward_grad.h>

namespace graphopt::soundness {
namespace {

using Tensors = std::vector<Tensor>;

Tensor leaf(Trial &run, at::IntArrayRef sizes) { return run.randn(sizes).set_requires_grad(run.gradients()); }

} // namespace

TRAP(Autograd, TwoForwardsThenBackward) {
  Tensor w = leaf(run, {3});
  run.watch("w", w);
  auto f = run.compile([w](Tensor x) { return (w * x).exp(); });
  run.calls([&](int) {
    Tensor a = f(run.randn({3})), b = f(run.randn({3}));
    run.see("a", a);
    run.backward(b);
    run.backward(a);
  });
}

TRAP(Autograd, BackwardTwice) {
  run.mayThrow();
  Tensor w = leaf(run, {3});
  run.watch("w", w);
  auto f = run.compile([w](Tensor x) { return (w * x).exp().sum(); });
  run.calls([&](int call) {
    Tensor y = f(run.randn({3}));
    y.backward({}, /*retain_graph=*/call % 2 == 0);
    y.backward();
  });
}

TRAP(Autograd, RequiresGradChanges) {
  Tensor w = leaf(run, {3});
  run.watch("w", w);
  auto f = run.compile([w](Tensor x) { return Tensors{w * x, w.detach() * x, x + 1}; });
  run.calls([&](int call) {
    w.set_requires_grad(run.gradients() && call % 3 != 0);
    Tensors y = f(run.in("x", run.randn({3}).set_requires_grad(run.gradients() && call % 2)));
    run.see("y", y);
    run.backward(y[0]);
  });
}

TRAP(Autograd, RequiresGradSetOnIntermediate) {
  auto f = run.compile([gradients = run.gradients()](Tensor x) {
    Tensor y = (x * 2).set_requires_grad(gradients);
    Tensor z = (y * y).sum();
    if (gradients)
      z.backward();
    return std::pair<Tensor, Tensor>(y, y.grad());
  });
  run.calls([&](int) {
    auto [y, grad] = f(run.randn({3}));
    run.see("y", y);
    run.see("grad", grad);
  });
}

TRAP(Autograd, BackwardInside) {
  Tensor w = leaf(run, {3});
  run.watch("w", w);
  auto f = run.compile([w](Tensor x) {
    Tensor loss = (w * x).pow(2).sum();
    loss.backward();
    return loss.detach();
  });
  run.calls([&](int) { run.see("loss", f(run.randn({3}))); });
}

TRAP(Autograd, GradInside) {
  auto f = run.compile([](Tensor x) {
    Tensor y = x.pow(3).sum();
    Tensor g = torch::autograd::grad({y}, {x}, {}, std::nullopt, /*create_graph=*/true)[0];
    return Tensors{y, g, torch::autograd::grad({g.sum()}, {x})[0]};
  });
  run.calls([&](int) { run.see("y", f(run.in("x", leaf(run, {3})))); });
}

TRAP(Autograd, GradOutside) {
  auto f = run.compile([](Tensor x, Tensor y) { return (x * y).sin().sum() + x.sum(); });
  run.calls([&](int) {
    Tensor x = run.in("x", leaf(run, {3})), y = run.in("y", leaf(run, {3}));
    Tensor z = f(x, y);
    run.see("grads", torch::autograd::grad({z}, {x, y}));
  });
}

TRAP(Autograd, GradToAnIntermediate) {
  auto kept = std::make_shared<Tensor>();
  auto f = run.compile([kept](Tensor x) {
    *kept = x * 2;
    return kept->exp().sum();
  });
  run.calls([&](int) {
    Tensor y = f(run.in("x", leaf(run, {3})));
    run.see("grad", torch::autograd::grad({y}, {*kept}));
  });
}

TRAP(Autograd, RetainGrad) {
  auto kept = std::make_shared<Tensor>();
  auto f = run.compile([kept](Tensor x) {
    *kept = x * 2;
    if (kept->requires_grad())
      kept->retain_grad();
    return kept->exp().sum();
  });
  run.calls([&](int) {
    run.backward(f(run.in("x", leaf(run, {3}))));
    run.see("kept", *kept);
    run.see("kept.grad", kept->grad());
  });
}

TRAP(Autograd, HookOnIntermediate) {
  auto seen = std::make_shared<Tensors>();
  auto f = run.compile([seen](Tensor x) {
    Tensor h = x * 2;
    if (h.requires_grad())
      h.register_hook([seen](Tensor g) {
        seen->push_back(g.clone());
        return g * 10;
      });
    return h.exp();
  });
  run.calls([&](int) {
    Tensor y = f(run.in("x", leaf(run, {3})));
    run.backward(y);
    run.see("hooked", *seen);
    seen->clear();
  });
}

TRAP(Autograd, HookOnParameter) {
  Tensor w = leaf(run, {3});
  run.watch("w", w);
  auto count = std::make_shared<int>(0);
  auto f = run.compile([w](Tensor x) { return (w * x).exp() + w; });
  unsigned hook = 0;
  run.calls([&](int call) {
    if (run.gradients() && call == 3)
      hook = w.register_hook([count](Tensor g) { return g * ++*count; });
    if (run.gradients() && call == 7)
      w.remove_hook(hook);
    run.backward(f(run.randn({3})));
    run.see("count", *count);
  });
}

TRAP(Autograd, GradRead) {
  Tensor w = leaf(run, {3});
  run.watch("w", w);
  auto f = run.compile([w](Tensor x) { return w.grad().defined() ? x + w.grad() : x * 2; });
  run.calls([&](int call) {
    run.see("y", f(run.randn({3})));
    if (call % 3 == 2)
      w.mutable_grad() = run.randn({3});
    if (call % 3 == 0)
      w.mutable_grad() = Tensor();
  });
}

TRAP(Autograd, GradModeInside) {
  auto f = run.compile([](Tensor x) {
    Tensor a = x * 2, b;
    {
      const at::NoGradGuard noGrad;
      b = a + 1;
    }
    return Tensors{a, b, a.detach() + 1, (x * 3).detach_(), b * a};
  });
  run.calls([&](int) {
    Tensors y = f(run.in("x", leaf(run, {3})));
    run.see("y", y);
    run.backward(y[4]);
  });
}

TRAP(Autograd, GradModeDecidedByState) {
  auto f = run.compile([count = 0](Tensor x) mutable {
    const at::AutoGradMode mode(++count % 3 != 0);
    return x.exp() * 2;
  });
  run.calls([&](int) {
    Tensor y = f(run.in("x", leaf(run, {3})));
    run.see("y", y);
    run.backward(y);
  });
}

TRAP(Autograd, AutogradQuestionsInside) {
  auto f = run.compile([](Tensor x) {
    Tensor y = x * 2, v = y.view({3, 1});
    std::string answers = std::to_string(y.requires_grad()) + std::to_string(y.is_leaf()) +
                          std::to_string(v.is_view()) + std::to_string(y.grad_fn() != nullptr);
    if (!y.is_inference()) {
      answers += std::to_string(v._base().is_same(y)) + " " + std::to_string(y._version());
      y.detach().add_(1);
      answers += " " + std::to_string(y._version()) + " " + std::to_string(v._version());
    }
    return std::pair<std::string, Tensor>(answers, v + 1);
  });
  run.calls([&](int) {
    auto [answers, y] = f(run.in("x", leaf(run, {3})));
    run.see("answers", answers);
    run.see("y", y);
  });
}

TRAP(Autograd, SecondDerivativeThroughACall) {
  auto f = run.compile([](Tensor x) { return x.pow(4).sum(); });
  run.calls([&](int) {
    Tensor x = run.in("x", leaf(run, {3}));
    Tensor g = torch::autograd::grad({f(x)}, {x}, {}, std::nullopt, /*create_graph=*/true)[0];
    run.see("first", g);
    run.see("second", torch::autograd::grad({g.sum()}, {x}));
  });
}

TRAP(Autograd, UnusedAndUndefinedGradients) {
  run.mayThrow();
  auto f = run.compile([](Tensor x, Tensor unused) { return Tensors{x * 2, unused * 3}; });
  run.calls([&](int call) {
    Tensor x = run.in("x", leaf(run, {3})), unused = run.in("unused", leaf(run, {3}));
    Tensors y = f(x, unused);
    run.see("grads",
            torch::autograd::grad({y[0].sum()}, {x, unused}, {}, std::nullopt, false, call % 2 == 0));
  });
}

TRAP(Autograd, SetDataInside) {
  Tensor w = leaf(run, {3});
  run.watch("w", w);
  auto f = run.compile([w](Tensor x) {
    Tensor y = w * x;
    w.set_data(w.detach() + x.detach());
    return Tensors{y, w * 2};
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Autograd, RequiresGradSetOnArgument) {
  auto f = run.compile([gradients = run.gradients(), call = 0](Tensor x) mutable {
    Tensor a = x * 2;
    x.set_requires_grad(gradients && ++call % 3 != 0);
    return Tensors{a, x * 3};
  });
  run.calls([&](int) {
    Tensors y = f(run.in("x", run.randn({3})));
    run.see("y", y);
    run.backward(y[1]);
  });
}

TRAP(Autograd, DataOfIntermediates) {
  auto f = run.compile([](Tensor x) {
    Tensor y = x * 2, data = y.is_inference() ? y.detach() : y.variable_data();
    data.add_(1);
    return Tensors{y, data, y * 3};
  });
  run.calls([&](int) {
    Tensors y = f(run.in("x", leaf(run, {3})));
    run.see("y", y);
    run.backward(y[2]);
  });
}

TRAP(Autograd, ViewWrittenAcrossBorders) {
  auto f = run.compile([](Tensor x) {
    Tensor y = x * 2;
    const float first = y.sum().item<float>();
    Tensor v = y[0];
    const float second = v.sum().item<float>();
    v.mul_(3);
    const float third = y.sum().item<float>();
    return Tensors{y * first + second, v + third};
  });
  run.calls([&](int) {
    Tensors y = f(run.in("x", leaf(run, {2, 3})));
    run.see("y", y);
    run.backward(y[0]);
  });
}

TRAP(Autograd, ViewMadeWithoutGradientsWritten) {
  run.mayThrow();
  auto f = run.compile([](Tensor x) {
    Tensor y = x * 2, v;
    {
      const at::NoGradGuard noGrad;
      v = y.view({3, 1});
    }
    v.mul_(2);
    return y + 1;
  });
  run.calls(
      [&](int call) { run.see("y", f(run.randn({3}).set_requires_grad(run.gradients() && call % 3 == 0))); });
}

TRAP(Autograd, ForwardMode) {
  auto f = run.compile([](Tensor x) { return (x * x).sin() + 1; });
  run.calls([&](int call) {
    const auto level = torch::autograd::ForwardADLevel::get_next_idx();
    {
      Tensor x = run.randn({3}), tangent = run.randn({3});
      Tensor y = f(call % 3 ? at::_make_dual(x, tangent, static_cast<int64_t>(level)) : x);
      auto [primal, derivative] = at::_unpack_dual(y, static_cast<int64_t>(level));
      run.see("primal", Tensor(primal).detach());
      run.see("derivative", derivative);
    }
    torch::autograd::ForwardADLevel::release_idx(level);
  });
}

} // namespace graphopt::soundness
