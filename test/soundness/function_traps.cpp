// Custom autograd Functions: history that is made past the dispatcher.
#include "trap.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/autograd.h>

namespace graphopt::soundness {
namespace {

using Tensors = std::vector<Tensor>;
using torch::autograd::AutogradContext;

Tensor leaf(Trial &run, at::IntArrayRef sizes) { return run.randn(sizes).set_requires_grad(run.gradients()); }

/// Twice the gradient that it should be, so that nobody can replace it by what its forward does.
struct Exaggerate : torch::autograd::Function<Exaggerate> {
  static Tensor forward(AutogradContext *context, Tensor x, double factor) {
    context->saved_data["factor"] = factor;
    context->save_for_backward({x});
    return x * x;
  }
  static Tensors backward(AutogradContext *context, Tensors gradients) {
    return {gradients[0] * context->get_saved_variables()[0] * 4 * context->saved_data["factor"].toDouble(),
            Tensor()};
  }
};

/// Straight-through: forward rounds, backward does as if it had not.
struct Round : torch::autograd::Function<Round> {
  static Tensor forward(AutogradContext *, Tensor x) { return x.round(); }
  static Tensors backward(AutogradContext *, Tensors gradients) { return gradients; }
};

Tensor noisy(const Tensor &x) { return torch::dropout(x * x, 0.5, true); }

/// Keeps its argument alone, and computes the rest again in backward, with the same random numbers.
struct Recompute : torch::autograd::Function<Recompute> {
  static Tensor forward(AutogradContext *context, Tensor x) {
    context->save_for_backward({x});
    context->saved_data["state"] = at::detail::getDefaultCPUGenerator().get_state();
    return noisy(x);
  }
  static Tensors backward(AutogradContext *context, Tensors gradients) {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const Tensor now = generator.get_state();
    generator.set_state(context->saved_data["state"].toTensor());
    const at::AutoGradMode on(true);
    Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    Tensors result = torch::autograd::grad({noisy(x)}, {x}, {gradients[0]});
    generator.set_state(now);
    return result;
  }
};

/// Writes its argument and says so.
struct WriteInPlace : torch::autograd::Function<WriteInPlace> {
  static Tensor forward(AutogradContext *context, Tensor x) {
    x.mul_(2);
    context->mark_dirty({x});
    return x;
  }
  static Tensors backward(AutogradContext *, Tensors gradients) { return {gradients[0] * 3}; }
};

} // namespace

TRAP(Function, WithItsOwnGradient) {
  auto f = run.compile([](Tensor x, double factor) { return Exaggerate::apply(x + 1, factor).exp() * 2; });
  run.calls([&](int call) {
    Tensor y = f(run.in("x", leaf(run, {3})), 1.0 + call % 3);
    run.see("y", y);
    run.backward(y);
  });
}

TRAP(Function, OnArgument) {
  auto f = run.compile([](Tensor x) { return Round::apply(x) * 2; });
  run.calls([&](int) {
    Tensor y = f(run.in("x", leaf(run, {3})));
    run.see("y", y);
    run.backward(y);
  });
}

TRAP(Function, Returned) {
  auto f = run.compile([](Tensor x) { return Round::apply(x * 3); });
  run.calls([&](int) {
    Tensor y = f(run.in("x", leaf(run, {3})));
    run.see("y", y);
    run.backward(y);
  });
}

TRAP(Function, ThatWrites) {
  auto f = run.compile([](Tensor x) {
    Tensor h = x + 1;
    Tensor y = WriteInPlace::apply(h);
    return Tensors{y * 2, h};
  });
  run.calls([&](int) {
    Tensors y = f(run.in("x", leaf(run, {3})));
    run.see("y", y);
    run.backward(y[0]);
  });
}

TRAP(Function, RecomputedInBackward) {
  auto f = run.compile([](Tensor x) { return Recompute::apply(x * 1.5).sin(); });
  run.calls([&](int) {
    Tensor y = f(run.in("x", leaf(run, {8})));
    run.see("y", y);
    run.backward(y);
  });
}

} // namespace graphopt::soundness
