// The order of things: when an operator sees its argument, when the host sees a result, and what happens
// between.
#include "trap.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <list>
#include <map>

namespace graphopt::soundness {
namespace {
using Tensors = std::vector<Tensor>;
} // namespace

TRAP(Order, ManyWritesAndReadsOfOneTensor) {
  run.needsHost();
  Tensor w = run.randn({4});
  run.watch("w", w);
  auto f = run.compile([w](Tensor x) {
    Tensors seen;
    for (int i = 0; i < 6; ++i) {
      seen.push_back(w + x);
      w.mul_(0.5).add_(i);
      seen.push_back(w.slice(0, i % 3, i % 3 + 1) * 2);
      if (i % 2)
        seen.push_back(x * w.const_data_ptr<float>()[i % 4]);
    }
    return seen;
  });
  run.expectSteady();
  run.calls([&](int) { run.see("y", f(run.randn({4}))); });
}

TRAP(Order, WriteUnderAViewMadeBefore) {
  Tensor w = run.randn({2, 3});
  run.watch("w", w);
  auto f = run.compile([w](Tensor x) {
    Tensor row = w[1], column = w.t()[0];
    w.add_(x);
    Tensor a = row * 2, b = column + 1;
    row.zero_();
    return Tensors{a, b, column * 1, w.sum(0)};
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Order, ArgumentRebound) {
  auto f = run.compile([](Tensor x, int64_t times) {
    Tensor first = x;
    for (int64_t i = 0; i < times; ++i)
      x = x * 2 + first;
    first.add_(x);
    return Tensors{x, first};
  });
  run.calls([&](int call) { run.see("y", f(run.in("x", run.randn({3})), int64_t(call % 3))); });
}

TRAP(Order, SwapAndCopyAmongTensors) {
  Tensors state{run.randn({3}), run.randn({3}), run.randn({3})};
  for (size_t i = 0; i < state.size(); ++i)
    run.watch("state" + std::to_string(i), state[i]);
  auto f = run.compile([state](Tensor x) {
    Tensor kept = state[0].clone();
    state[0].copy_(state[1]);
    state[1].copy_(state[2]);
    state[2].copy_(kept + x);
    return state[0] * state[1] + state[2];
  });
  run.expectSteady();
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Order, NormTwiceThenRead) {
  run.needsHost();
  auto norm = std::make_shared<torch::nn::BatchNorm1dImpl>(3);
  run.watch(norm);
  auto f = run.compile([norm](Tensor x) {
    Tensor a = norm->forward(x);
    const float mean = norm->running_mean.const_data_ptr<float>()[0];
    const int64_t count = norm->num_batches_tracked.item<int64_t>();
    Tensor b = norm->forward(x * 2);
    return Tensors{a, b, norm->running_var * mean + count, norm->running_mean.clone()};
  });
  run.calls([&](int call) {
    norm->train(call % 4 != 0);
    run.see("y", f(run.randn({5, 3})));
  });
}

TRAP(Order, DrawsAndReadsInterleaved) {
  auto f = run.compile([](Tensor x) {
    Tensor a = torch::rand({2});
    const float first = a[0].item<float>();
    Tensor b = torch::dropout(x, 0.5, true), c = torch::randn({2});
    if (first > 0.5)
      c = c + torch::rand({2});
    Tensor d = torch::randperm(4);
    return Tensors{a, b * first, c, d, torch::rand({1})};
  });
  run.calls([&](int) { run.see("y", f(run.randn({6}))); });
}

TRAP(Order, BreadthFirstOverATree) {
  // The shape of the computation is data of the host: another tree at each call.
  auto f = run.compile([](std::vector<Tensor> leaves, std::vector<int> order) {
    std::list<Tensor> queue(leaves.begin(), leaves.end());
    for (const int kind : order) {
      Tensor a = queue.front();
      queue.pop_front();
      Tensor b = queue.front();
      queue.pop_front();
      queue.push_back(kind == 0 ? torch::tanh(a + b) : kind == 1 ? a * b : torch::sigmoid(a) - b);
    }
    return queue.front();
  });
  run.calls(
      [&](int call) {
        const int size = 2 + call % 4;
        std::vector<Tensor> leaves;
        std::vector<int> order;
        for (int i = 0; i < size; ++i)
          leaves.push_back(run.randn({2}).set_requires_grad(run.gradients()));
        for (int i = 0; i + 1 < size; ++i)
          order.push_back((call * 7 + i * 5) % 3);
        Tensor y = f(leaves, order);
        run.see("y", y);
        run.backward(y);
        for (size_t i = 0; i < leaves.size() && run.gradients(); ++i)
          run.see("grad of leaf " + std::to_string(i), leaves[i].grad());
      },
      30);
}

TRAP(Order, BeamSearch) {
  auto net = std::make_shared<torch::nn::LinearImpl>(4, 5);
  run.watch(net);
  auto f = run.compile([net](Tensor hidden) {
    const at::NoGradGuard noGrad;
    Tensor scores = torch::zeros({2}), states = hidden.expand({2, 4});
    std::vector<int64_t> tokens;
    for (int step = 0; step < 6; ++step) {
      Tensor logits = torch::log_softmax(net->forward(states), 1) + scores.unsqueeze(1);
      auto [best, index] = logits.flatten().topk(2);
      const int64_t token = (index[0] % 5).item<int64_t>();
      tokens.push_back(token);
      if (token == 3)
        break;
      scores = best;
      states = states.index_select(0, index.div(5, "floor")) * 0.9 + static_cast<double>(token) * 0.1;
    }
    return std::pair<std::vector<int64_t>, Tensor>(tokens, scores);
  });
  run.calls([&](int) {
    auto [tokens, scores] = f(run.randn({1, 4}));
    for (const int64_t token : tokens)
      run.see("token", token);
    run.see("scores", scores);
  });
}

TRAP(Order, LayersSkippedByChance) {
  std::vector<torch::nn::Linear> layers;
  for (int i = 0; i < 6; ++i)
    layers.emplace_back(3, 3);
  for (size_t i = 0; i < layers.size(); ++i)
    run.watch(layers[i].ptr());
  auto f = run.compile([layers](Tensor x) mutable {
    for (auto &layer : layers)
      if (torch::rand({1}).item<float>() < 0.7)
        x = x + torch::relu(layer(x));
    return x;
  });
  run.calls(
      [&](int) {
        Tensor y = f(run.randn({2, 3}));
        run.see("y", y);
        run.backward(y);
      },
      30);
}

TRAP(Order, ResultsOfOneSegmentWrittenInTheNext) {
  auto f = run.compile([](Tensor x) {
    Tensor a = x * 2, b = a.view({3, 1}), c = a + 1;
    const float first = c.sum().item<float>(); // border: a, b and c are real now
    b.add_(first);
    const float second = a.sum().item<float>();
    a.mul_(second);
    return Tensors{a, b, c};
  });
  run.calls([&](int) {
    Tensors y = f(run.in("x", run.randn({3}).set_requires_grad(run.gradients())));
    run.see("y", y);
    run.backward(y[0]);
  });
}

TRAP(Order, ConstantsMadeOnceUsedAlways) {
  auto f = run.compile([mask = Tensor(), table = std::map<int64_t, Tensor>()](Tensor x, int64_t key) mutable {
    if (!mask.defined())
      mask = torch::ones({3, 3}).triu();
    if (!table.contains(key))
      table[key] = torch::arange(3).to(at::kFloat) * key;
    return x.matmul(mask) + table[key];
  });
  run.calls([&](int call) { run.see("y", f(run.randn({2, 3}), int64_t(call % 3))); });
}

TRAP(Order, InPlaceOnTheSameTensorThroughDifferentNames) {
  auto f = run.compile([](Tensor x, Tensor same) {
    x.add_(1);
    same.mul_(2);
    Tensor y = x - same;
    x.sub_(3);
    return Tensors{y, same * 1};
  });
  run.calls([&](int call) {
    Tensor x = run.in("x", run.randn({4}));
    run.see("y", f(x, call % 2 ? x : x.view({2, 2}).view({4})));
  });
}

} // namespace graphopt::soundness
