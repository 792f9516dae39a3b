// Compiled callables inside others, calls inside calls, models that take turns.
#include "trap.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

namespace graphopt::soundness {
namespace {
using Tensors = std::vector<Tensor>;
using Function = std::function<Tensor(Tensor)>;
} // namespace

TRAP(Nesting, CompiledInsideCompiled) {
  auto inner = run.compile([](Tensor x) { return x.tanh() * 2; });
  auto f = run.compile([inner](Tensor x) { return inner(x + 1) + inner(x * 3); });
  run.calls([&](int call) {
    Tensor x = run.in("x", run.randn({3}).set_requires_grad(run.gradients()));
    Tensor y = call % 3 == 0 ? inner(x) : f(x);
    run.see("y", y);
    run.backward(y);
  });
}

TRAP(Nesting, CompiledModuleInsideAModule) {
  struct Outer : torch::nn::Module {
    torch::nn::Linear a{nullptr}, b{nullptr};
    Function middle;
    Outer() {
      a = register_module("a", torch::nn::Linear(3, 3));
      b = register_module("b", torch::nn::Linear(3, 3));
    }
    Tensor forward(Tensor x) { return b(middle(a(x))) + x; }
  };
  auto net = std::make_shared<Outer>();
  auto part = std::make_shared<torch::nn::SequentialImpl>(torch::nn::Linear(3, 5), torch::nn::Tanh(),
                                                          torch::nn::Linear(5, 3));
  net->middle = [part = run.compile([part](Tensor x) { return part->forward(x); })](Tensor x) {
    return part(x);
  };
  run.watch(net);
  run.watch(part);
  auto f = run.compile(net);
  run.calls([&](int) {
    Tensor y = f(run.randn({2, 3}));
    run.see("y", y);
    run.backward(y);
  });
}

TRAP(Nesting, InnerDecides) {
  auto inner = run.compile([call = 0](Tensor x) mutable { return ++call % 3 == 0 ? x.exp() : x.neg(); });
  auto f = run.compile([inner](Tensor x) {
    Tensor y = inner(x);
    return y.sum().item<float>() > 0 ? inner(y) : y + 1;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Nesting, InnerThrows) {
  run.mayThrow();
  Tensor w = torch::zeros({3});
  run.watch("w", w);
  auto inner = run.compile([w, call = 0](Tensor x) mutable {
    w.add_(1);
    if (++call % 3 == 0)
      throw std::runtime_error("inner");
    return x * w;
  });
  auto f = run.compile([inner, w](Tensor x) {
    Tensor y = inner(x + 1);
    w.mul_(2);
    return y + 1;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Nesting, Recursion) {
  auto self = std::make_shared<std::function<Tensor(Tensor, int64_t)>>();
  auto f = run.compile([self](Tensor x, int64_t depth) {
    if (depth == 0)
      return x.sigmoid();
    return (*self)(x * 2, depth - 1) + x;
  });
  *self = [f](Tensor x, int64_t depth) { return f(x, depth); };
  run.calls([&](int call) {
    Tensor y = f(run.in("x", run.randn({3}).set_requires_grad(run.gradients())), int64_t(call % 4));
    run.see("y", y);
    run.backward(y);
  });
  *self = nullptr; // it holds itself
}

TRAP(Nesting, RecursionOfTheProgramItself) {
  struct Walk {
    Tensor operator()(Tensor x, int64_t n) {
      if (n < 2)
        return x + n;
      return (*this)(x * 2, n - 1) + (*this)(x - 1, n - 2);
    }
  };
  auto f = run.compile(Walk());
  run.calls([&](int call) { run.see("y", f(run.randn({2}), int64_t(call % 5))); });
}

TRAP(Nesting, TwoModelsTakeTurns) {
  auto a = std::make_shared<torch::nn::LinearImpl>(3, 3), b = std::make_shared<torch::nn::LinearImpl>(3, 3);
  run.watch(a);
  run.watch(b);
  auto f = run.compile(a), g = run.compile(b);
  run.expectSteady();
  run.calls([&](int) {
    Tensor x = run.randn({2, 3});
    Tensor y = g(f(x)), z = f(g(x).relu());
    run.see("y", y);
    run.see("z", z);
    run.backward(y + z);
  });
}

TRAP(Nesting, OneModelCompiledTwice) {
  auto net = std::make_shared<torch::nn::LinearImpl>(3, 3);
  run.watch(net);
  auto f = run.compile(net), g = run.compile(net);
  run.calls([&](int call) {
    Tensor y = f(run.randn({2, 3})) + g(run.randn({2, 3}));
    run.see("y", y);
    run.backward(y);
    const at::NoGradGuard noGrad;
    net->weight.mul_(0.9 + 0.01 * call);
  });
}

TRAP(Nesting, CompiledInsideTheCall) {
  auto f = run.compile([&run](Tensor x) {
    auto inner = run.compile([](Tensor t) { return t.exp() + 1; }); // anew in each call
    return inner(x) * 2;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Nesting, AdversaryAndItsVictim) {
  auto generator = std::make_shared<torch::nn::LinearImpl>(2, 3),
       critic = std::make_shared<torch::nn::LinearImpl>(3, 1);
  run.watch(generator);
  run.watch(critic);
  auto make = run.compile(generator), judge = run.compile(critic);
  run.calls([&](int) {
    Tensor fake = make(run.randn({4, 2}));
    run.backward(judge(fake.detach()) - judge(run.randn({4, 3})));
    run.backward(-judge(fake));
    const at::NoGradGuard noGrad;
    for (const auto &net : {generator, critic})
      for (Tensor &p : net->parameters())
        if (p.grad().defined()) {
          p.sub_(p.grad() * 0.01);
          p.mutable_grad().zero_();
        }
  });
}

TRAP(Nesting, CalledFromAHook) {
  auto inner = run.compile([](Tensor g) { return g * 2 + 1; });
  auto f = run.compile([inner](Tensor x) {
    Tensor y = x.exp();
    if (y.requires_grad())
      y.register_hook([inner](const Tensor &g) { return inner(g); });
    return y * 3;
  });
  run.calls([&](int) { run.backward(f(run.in("x", run.randn({3}).set_requires_grad(run.gradients())))); });
}

} // namespace graphopt::soundness
