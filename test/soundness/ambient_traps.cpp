// Switches of the thread and the process, changed between calls and inside them; and the random generator.
#include "device.h"
#include "trap.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>
#include <torch/utils.h>

#include <mutex>

namespace graphopt::soundness {
namespace {

using Tensors = std::vector<Tensor>;

class Autocast {
public:
  explicit Autocast(bool on, at::ScalarType dtype = at::kBFloat16) {
    at::autocast::increment_nesting();
    at::autocast::set_autocast_enabled(kind_, on);
    at::autocast::set_autocast_dtype(kind_, dtype);
  }
  ~Autocast() {
    at::autocast::set_autocast_enabled(kind_, wasOn_);
    at::autocast::set_autocast_dtype(kind_, wasType_);
    if (at::autocast::decrement_nesting() == 0)
      at::autocast::clear_cache();
  }
  Autocast(const Autocast &) = delete;
  Autocast &operator=(const Autocast &) = delete;

private:
  const at::DeviceType kind_ = trapDevice().type();
  const bool wasOn_ = at::autocast::is_autocast_enabled(kind_);
  const at::ScalarType wasType_ = at::autocast::get_autocast_dtype(kind_);
};

class DefaultDtype {
public:
  explicit DefaultDtype(at::ScalarType dtype) { at::set_default_dtype(c10::scalarTypeToTypeMeta(dtype)); }
  ~DefaultDtype() { at::set_default_dtype(was_); }
  DefaultDtype(const DefaultDtype &) = delete;
  DefaultDtype &operator=(const DefaultDtype &) = delete;

private:
  const caffe2::TypeMeta was_ = at::get_default_dtype();
};

std::shared_ptr<torch::nn::LinearImpl> linear() { return std::make_shared<torch::nn::LinearImpl>(4, 3); }

} // namespace

TRAP(Ambient, AutocastBetweenCalls) {
  auto net = linear();
  run.watch(net);
  auto f = run.compile([net](Tensor x) { return net->forward(x).softmax(1) + x.exp().sum(); });
  run.calls([&](int call) {
    const Autocast autocast(call % 3 != 0, call % 2 ? at::kBFloat16 : at::kHalf);
    Tensor y = f(run.randn({2, 4}));
    run.see("y", y);
    run.backward(y);
  });
}

/// Autocast has the cell on no list, and the linear layers in it on one.
TRAP(Ambient, AutocastBetweenCallsOfAnOperatorThatCallsOthers) {
  auto cell = std::make_shared<torch::nn::LSTMCellImpl>(4, 3);
  run.watch(cell);
  auto f = run.compile([cell](Tensor x) { return std::get<0>(cell->forward(x)); });
  run.calls([&](int call) {
    const Autocast autocast(call % 3 != 0);
    Tensor y = f(run.randn({2, 4}));
    run.see("y", y);
    run.backward(y);
  });
}

/// The casts of a region are gone when the next one begins, and so are sums of their gradients.
TRAP(Ambient, AutocastTwiceInside) {
  auto weight = torch::randn({4, 4}).requires_grad_();
  auto f = run.compile([weight](Tensor x) {
    Tensor y;
    for (int i = 0; i < 2; ++i) {
      const Autocast autocast(true);
      y = torch::linear(torch::linear(x, weight).relu(), weight);
      x = y.to(torch::kFloat);
    }
    return y;
  });
  run.calls([&](int) {
    Tensor y = f(run.randn({2, 4}));
    run.see("y", y);
    run.backward(y);
    run.see("gradient", weight.grad());
  });
}

/// A cast made without gradients is kept for uses that want some.
TRAP(Ambient, AutocastFirstWithoutGradients) {
  auto weight = torch::randn({4, 4}).requires_grad_();
  auto f = run.compile([weight](Tensor x) { return torch::linear(x, weight); });
  run.calls([&](int call) {
    const Autocast autocast(true);
    if (call % 2) {
      const at::NoGradGuard noGrad;
      run.see("first", f(run.randn({2, 4})));
    }
    Tensor y = f(run.randn({2, 4}));
    run.see("y", y);
    run.see("asks", y.requires_grad());
    if (y.requires_grad())
      run.backward(y);
  });
}

TRAP(Ambient, AutocastWithoutItsCacheNowAndThen) {
  auto weight = torch::randn({4, 4}).requires_grad_();
  auto f = run.compile([weight](Tensor x) { return torch::linear(torch::linear(x, weight), weight); });
  run.calls([&](int call) {
    at::autocast::set_autocast_cache_enabled(call % 3 != 1);
    {
      const Autocast autocast(true);
      Tensor y = f(run.randn({2, 4}));
      run.see("y", y);
      run.backward(y);
    }
    run.see("gradient", weight.grad());
    at::autocast::set_autocast_cache_enabled(true);
  });
}

TRAP(Ambient, AutocastInside) {
  auto net = linear();
  run.watch(net);
  auto f = run.compile([net, count = 0](Tensor x) mutable {
    Tensor a = net->forward(x), b;
    {
      const Autocast autocast(++count % 4 != 0);
      b = net->forward(x);
    }
    return Tensors{a, b, a + b};
  });
  run.calls([&](int) {
    Tensors y = f(run.randn({2, 4}));
    run.see("y", y);
    run.backward(y[2]);
  });
}

TRAP(Ambient, AutocastAndWeightsThatChange) {
  auto net = linear();
  auto f = run.compile([net](Tensor x) { return net->forward(x) + net->forward(x * 2); });
  run.calls([&](int) {
    const Autocast autocast(true);
    run.see("y", f(run.randn({2, 4})));
    const at::NoGradGuard noGrad;
    net->weight.mul_(-1.25); // a cast made earlier is stale now
  });
}

TRAP(Ambient, GradModeBetweenCalls) {
  auto net = linear();
  run.watch(net);
  auto f = run.compile(net);
  run.calls([&](int call) {
    const at::AutoGradMode mode(call % 3 != 0);
    Tensor y = f(run.randn({2, 4}));
    run.see("y", y);
    run.backward(y);
  });
}

TRAP(Ambient, InferenceModeBetweenCalls) {
  auto net = linear();
  run.watch(net);
  auto f = run.compile([net](Tensor x) { return Tensors{net->forward(x), x.t(), x + 1}; });
  run.calls([&](int call) {
    Tensor x = run.randn({2, 4});
    const c10::InferenceMode inference(call % 3 == 0);
    run.see("y", f(run.in("x", x)));
  });
}

TRAP(Ambient, InferenceModeInside) {
  auto f = run.compile([](Tensor x) {
    Tensor a = x * 2, b;
    {
      const c10::InferenceMode inference;
      b = a + 1;
    }
    return Tensors{a, b, b.clone()};
  });
  run.calls([&](int) { run.see("y", f(run.in("x", run.randn({3}).set_requires_grad(run.gradients())))); });
}

TRAP(Ambient, InferenceTensorAsArgument) {
  auto f = run.compile([](Tensor x) { return Tensors{x * 2, x.view({3, 1})}; });
  run.calls([&](int call) {
    Tensor x = run.randn({3});
    if (call % 2) {
      const c10::InferenceMode inference;
      x = x.clone();
    }
    run.see("y", f(run.in("x", x)));
  });
}

TRAP(Ambient, DeterministicAlgorithms) {
  auto f = run.compile(
      [](Tensor x, Tensor i) { return torch::zeros({4}).index_put_({i}, x, /*accumulate=*/true) + 1; });
  run.calls([&](int call) {
    at::globalContext().setDeterministicAlgorithms(call % 3 == 0, false);
    run.see("y", f(run.randn({3}), torch::tensor({1, 1, 2})));
  });
}

TRAP(Ambient, DeterministicErrors) {
  run.mayThrow();
  auto f = run.compile([](Tensor x) { return x.put_(torch::tensor({0}), torch::ones({1}), false) + 1; });
  run.calls([&](int call) {
    at::globalContext().setDeterministicAlgorithms(call % 3 == 0, false);
    run.see("y", f(run.randn({3})));
  });
}

TRAP(Ambient, DefaultDtypeBetweenCalls) {
  auto f = run.compile([](Tensor x) { return Tensors{x + torch::ones({3}), x / 3, torch::arange(3) * 0.5}; });
  run.calls([&](int call) {
    const DefaultDtype dtype(call % 3 ? at::kFloat : at::kDouble);
    run.see("y", f(torch::arange(3)));
  });
}

TRAP(Ambient, DefaultDtypeInside) {
  auto f = run.compile([count = 0](Tensor x) mutable {
    Tensor a = torch::ones({3});
    const DefaultDtype dtype(++count % 3 ? at::kDouble : at::kFloat);
    return Tensors{a + x, torch::ones({3}), torch::rand({2})};
  });
  run.calls([&](int) { run.see("y", f(torch::arange(3))); });
}

TRAP(Ambient, DefaultDtypeLeftChanged) {
  auto f = run.compile([count = 0](Tensor x) mutable {
    at::set_default_dtype(c10::scalarTypeToTypeMeta(++count % 2 ? at::kDouble : at::kFloat));
    return x + torch::ones({3});
  });
  run.calls([&](int) { run.see("y", f(torch::arange(3))); });
}

TRAP(Ambient, GradModeLeftChanged) {
  auto f = run.compile([count = 0](Tensor x) mutable {
    Tensor y = x * 2;
    at::GradMode::set_enabled(++count % 3 != 0);
    return Tensors{y, x * 3};
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}).set_requires_grad(run.gradients()))); });
}

TRAP(Ambient, Threads) {
  auto f = run.compile([](Tensor x) { return x.sum(0) + at::get_num_threads(); });
  run.calls([&](int call) {
    at::set_num_threads(1 + call % 2);
    run.see("y", f(run.randn({64, 64})));
  });
}

TRAP(Ambient, RandomNumbers) {
  auto f = run.compile([](Tensor x) {
    Tensor mask = torch::rand_like(x) > 0.5;
    return Tensors{torch::dropout(x, 0.3, true) * mask, torch::randperm(5),   torch::randn({2}) + x.sum(),
                   torch::randint(0, 9, {3}),           x.clone().uniform_(), torch::bernoulli(x.sigmoid()),
                   torch::multinomial(x.exp(), 2)};
  });
  run.expectSteady();
  run.calls([&](int) { run.see("y", f(run.randn({6}))); });
}

TRAP(Ambient, RandomNumbersByChance) {
  auto f = run.compile([](Tensor x) {
    return torch::rand({1}).item<float>() > 0.5 ? torch::dropout(x, 0.5, true) : x + torch::randn_like(x);
  });
  run.calls([&](int) { run.see("y", f(run.randn({6}))); });
}

TRAP(Ambient, SeedInMidCall) {
  auto f = run.compile([count = 0](Tensor x) mutable {
    Tensor a = torch::rand({3});
    torch::manual_seed(static_cast<uint64_t>(++count % 3));
    return Tensors{a + x, torch::rand({3}), torch::dropout(x, 0.5, true)};
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Ambient, SeedTwiceAlike) {
  auto f = run.compile([](Tensor x) {
    torch::manual_seed(3);
    Tensor a = torch::rand({3});
    torch::manual_seed(3);
    return Tensors{a + x, torch::rand({3}), torch::rand({2})};
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Ambient, GeneratorStateReadBetweenDraws) {
  auto f = run.compile([](Tensor x) {
    Tensor a = torch::rand({3});
    Tensor state = at::detail::getDefaultCPUGenerator().get_state();
    return Tensors{a + x, state, torch::rand({3})};
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Ambient, GeneratorStateSavedAndRestored) {
  auto f = run.compile([](Tensor x) {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    Tensor state = generator.get_state(), a = torch::rand({3});
    generator.set_state(state);
    Tensor b = torch::rand({3});
    return Tensors{a, b, a - b + x};
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Ambient, GeneratorHeldByProgram) {
  auto generator = std::make_shared<at::Generator>(at::detail::createCPUGenerator(5));
  auto f =
      run.compile([generator](Tensor x) { return Tensors{at::rand({3}, *generator) + x, torch::rand({2})}; });
  run.calls([&](int call) {
    if (call == 6)
      *generator = at::detail::createCPUGenerator(5);
    run.see("y", f(run.randn({3})));
    run.see("state", generator->get_state());
  });
}

TRAP(Ambient, DropoutModule) {
  auto net = std::make_shared<torch::nn::DropoutImpl>(0.4);
  auto f = run.compile(net);
  run.calls([&](int) {
    Tensor y = f(run.in("x", run.randn({16}).set_requires_grad(run.gradients())));
    run.see("y", y);
    torch::rand({2}); // the caller draws too
    run.backward(y);
  });
}

TRAP(Ambient, PrecisionSwitches) {
  auto f = run.compile([](Tensor x) { return x.matmul(x) + 1; });
  run.calls([&](int call) {
    const bool was = at::globalContext().userEnabledMkldnn();
    at::globalContext().setUserEnabledMkldnn(call % 3 != 0);
    run.see("y", f(run.randn({8, 8})));
    at::globalContext().setUserEnabledMkldnn(was);
  });
}

TRAP(Ambient, DeterministicInside) {
  run.mayThrow();
  auto f = run.compile([count = 0](Tensor x) mutable {
    Tensor y = x * 2;
    at::globalContext().setDeterministicAlgorithms(++count % 3 == 0, false);
    y.put_(torch::tensor({0}), torch::ones({1}), false);
    at::globalContext().setDeterministicAlgorithms(false, false);
    return y + 1;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Ambient, ThreadsInside) {
  auto f = run.compile([count = 0](Tensor x) mutable {
    Tensor y = x.sum(0);
    at::set_num_threads(1 + ++count % 2);
    return y + x.sum(1);
  });
  run.calls([&](int) { run.see("y", f(run.randn({64, 64}))); });
}

TRAP(Ambient, BelowAutogradInside) {
  auto f = run.compile([count = 0](Tensor x) mutable {
    Tensor a = x * 2, b;
    if (++count % 4) {
      const at::AutoDispatchBelowAutograd below;
      b = a * 3;
    }
    return Tensors{a, b, x + 1};
  });
  run.calls([&](int) { run.see("y", f(run.in("x", run.randn({3}).set_requires_grad(run.gradients())))); });
}

TRAP(Ambient, FlushDenormalInside) {
  auto f = run.compile([](Tensor x) {
    Tensor a = x * 0.5;
    at::globalContext().setFlushDenormal(true);
    Tensor b = x * 0.5;
    at::globalContext().setFlushDenormal(false);
    return Tensors{a, b, x * 0.25};
  });
  run.calls([&](int) { run.see("y", f(torch::full({3}, 1e-38))); });
}

TRAP(Ambient, AutocastAroundAllCalls) {
  auto net = linear();
  auto f = run.compile([net](Tensor x) { return net->forward(x) + net->forward(x * 2); });
  const Autocast autocast(true);
  run.calls([&](int) {
    run.see("y", f(run.randn({2, 4})));
    const at::NoGradGuard noGrad;
    net->weight.mul_(-1.25); // eager keeps its first cast, as long as autocast lasts
  });
}

// Documented: with its mutex held the generator cannot wait for draws of the call, so asking for its state is
// an error.
TRAP(Ambient, GeneratorStateReadWithItsMutexHeld) {
  auto f = run.compile([](Tensor x) {
    Tensor a = torch::rand({3}) + x;
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard lock(generator.mutex());
    return Tensors{a, generator.get_state()};
  });
  run.calls([&](int) {
    try {
      run.see("right", f(run.randn({3})).size() == 2);
    } catch (const Error &error) {
      run.see("right", run.replays() && error.kind() == Error::Kind::User);
    }
  });
}

} // namespace graphopt::soundness
