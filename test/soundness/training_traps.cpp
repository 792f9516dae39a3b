// Training loops around compiled calls and inside them: accumulation, optimizers, graphs that span calls.
#include "trap.h"

#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

namespace graphopt::soundness {
namespace {

Tensor leaf(Trial &run, at::IntArrayRef sizes) { return run.randn(sizes).set_requires_grad(run.gradients()); }

} // namespace

TRAP(Training, GradientsAccumulate) {
  Tensor w = leaf(run, {3});
  run.watch("w", w);
  auto f = run.compile([w](Tensor x) { return (w * x).tanh().sum(); });
  run.expectSteady();
  run.calls([&](int call) {
    run.backward(f(run.randn({3})));
    if (call % 4 == 0)
      w.mutable_grad() = Tensor();
  });
}

TRAP(Training, TrainingLoopInside) {
  Tensor w = leaf(run, {3});
  run.watch("w", w);
  auto f = run.compile([w](Tensor x) {
    for (int i = 0; i < 3; ++i) {
      (w * x).pow(2).sum().backward();
      const at::NoGradGuard noGrad;
      w.sub_(w.grad() * 0.1);
      w.mutable_grad().zero_();
    }
    return w.detach().clone();
  });
  run.calls([&](int) { run.see("w", f(run.randn({3}))); });
}

namespace {

template <class Optimizer, class Options> void trainInside(Trial &run, Options options) {
  auto net = std::make_shared<torch::nn::LinearImpl>(4, 2);
  run.watch(net);
  auto optimizer = std::make_shared<Optimizer>(net->parameters(), options);
  auto f = run.compile([net, optimizer](Tensor x) {
    optimizer->zero_grad();
    Tensor loss = net->forward(x).pow(2).mean();
    loss.backward();
    optimizer->step();
    return loss.detach();
  });
  run.calls([&](int call) {
    if (call == 6)
      static_cast<Options &>(optimizer->param_groups()[0].options()).lr(0.001);
    run.see("loss", f(run.randn({3, 4})));
  });
}

} // namespace

TRAP(Training, SgdInside) {
  trainInside<torch::optim::SGD>(run, torch::optim::SGDOptions(0.1).momentum(0.9));
}
TRAP(Training, AdamInside) { trainInside<torch::optim::Adam>(run, torch::optim::AdamOptions(0.1)); }

TRAP(Training, TrainingLoopOutside) {
  auto net = std::make_shared<torch::nn::LinearImpl>(4, 2);
  run.watch(net);
  torch::optim::SGD optimizer(net->parameters(),
                              torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.01));
  auto f = run.compile(net);
  run.expectSteady();
  run.calls([&](int call) {
    if (call % 2)
      optimizer.zero_grad(/*set_to_none=*/call % 4 == 1);
    Tensor loss = f(run.randn({3, 4})).pow(2).mean();
    run.see("loss", loss);
    if (run.gradients()) {
      loss.backward();
      optimizer.step();
    }
  });
}

TRAP(Training, RetainedGraphAcrossCalls) {
  auto hidden = std::make_shared<Tensor>(torch::zeros({3}));
  Tensor w = leaf(run, {3});
  run.watch("w", w);
  auto f = run.compile([hidden, w](Tensor x) {
    *hidden = torch::tanh(*hidden * w + x);
    return *hidden * 1;
  });
  run.calls([&](int call) {
    Tensor y = f(run.randn({3}));
    run.see("y", y);
    if (call % 5 == 0) { // through five calls
      run.backward(y);
      *hidden = hidden->detach();
    }
  });
}

TRAP(Training, FlatParameters) {
  Tensor flat = leaf(run, {14});
  run.watch("flat", flat);
  auto f = run.compile([flat](Tensor x) {
    const std::vector<Tensor> parts = flat.split_with_sizes({12, 2});
    return torch::tanh(x.matmul(parts[0].view({6, 2})) + parts[1]);
  });
  run.expectSteady();
  run.calls([&](int) {
    run.backward(f(run.randn({3, 6})));
    const at::NoGradGuard noGrad;
    if (flat.grad().defined())
      flat.sub_(flat.grad() * 0.1);
  });
}

TRAP(Training, ParametersThatAreViews) {
  Tensor flat = run.randn({8}), w = flat.slice(0, 0, 4).detach(), b = flat.slice(0, 4, 8).detach();
  w.set_requires_grad(run.gradients());
  b.set_requires_grad(run.gradients());
  run.watch("flat", flat);
  run.watch("w", w);
  run.watch("b", b);
  auto f = run.compile([w, b](Tensor x) { return (x * w + b).exp(); });
  run.calls([&](int) {
    run.backward(f(run.randn({4})));
    flat.mul_(0.9); // all of them at once
  });
}

} // namespace graphopt::soundness
