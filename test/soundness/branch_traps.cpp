// Decisions: on values, on sizes, on arguments, on chance and on time; loops whose length the data decides.
#include "trap.h"

#include <chrono>
#include <cstdlib>
#include <random>

namespace graphopt::soundness {

TRAP(Branch, OnItem) {
  auto f = run.compile([](Tensor x) { return x.sum().item<float>() > 0 ? x.exp() : x * 2 - 1; });
  run.calls([&](int) {
    Tensor y = f(run.in("x", run.randn({3}).set_requires_grad(run.gradients())));
    run.see("y", y);
    run.backward(y);
  });
}

TRAP(Branch, OnItemThenOnAnotherItem) {
  auto f = run.compile([](Tensor x) {
    Tensor y = x.max().item<float>() > 1 ? x / x.max() : x;
    y = y + 1;
    return y.min().item<float>() < 0 ? y.abs() : y.sqrt();
  });
  run.calls([&](int) { run.see("y", f(run.randn({4}))); });
}

TRAP(Branch, ItemUsedAsScalar) {
  auto f = run.compile([](Tensor x) { return x * x.mean().item<double>() + x.std().item<float>(); });
  run.expectSteady();
  run.calls([&](int) { run.see("y", f(run.randn({5}))); });
}

TRAP(Branch, ItemUsedAsSize) {
  auto f =
      run.compile([](Tensor x) { return torch::arange(x.argmax().item<int64_t>() + 1).to(at::kFloat) * 2; });
  run.calls([&](int) { run.see("y", f(run.randn({4}))); });
}

TRAP(Branch, ItemReturned) {
  auto f = run.compile([](Tensor x) { return std::pair<double, Tensor>(x.sum().item<double>(), x + 1); });
  run.calls([&](int) {
    auto [sum, y] = f(run.randn({4}));
    run.see("sum", sum);
    run.see("y", y);
  });
}

TRAP(Branch, TensorAsCondition) {
  auto f = run.compile([](Tensor x) {
    if ((x > 1).any().item<bool>())
      return x - 1;
    if (torch::is_nonzero(x.sum() > 0))
      return x + 1;
    return torch::equal(x, x.abs()) ? x : -x;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Branch, DataDependentTripCount) {
  auto f = run.compile([](Tensor x) {
    while (x.norm().item<float>() > 0.5)
      x = x * 0.5;
    return x;
  });
  run.calls([&](int call) { run.see("y", f(run.randn({4}) * call)); });
}

TRAP(Branch, NewtonIteration) {
  auto f = run.compile([](Tensor x) {
    Tensor root = torch::ones_like(x);
    int steps = 0;
    for (; steps < 50 && (root * root - x).abs().max().item<float>() > 1e-4F; ++steps)
      root = 0.5 * (root + x / root);
    return std::pair<Tensor, int64_t>(root, steps);
  });
  run.calls([&](int call) {
    auto [root, steps] = f(run.randn({3}).abs() * call + 0.1);
    run.see("root", root);
    run.see("steps", steps);
  });
}

TRAP(Branch, CoinFlips) {
  std::mt19937 coins(3);
  auto f = run.compile([&coins](Tensor x) {
    for (int i = 0; i < 8; ++i)
      x = coins() % 2 ? x + i : x * 1.125;
    return x;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); }, 60);
}

TRAP(Branch, HostRandomNumbers) {
  auto f = run.compile([](Tensor x) {
    const double factor = std::rand() / static_cast<double>(RAND_MAX);
    return std::rand() % 3 ? x * factor : torch::dropout(x, factor, true);
  });
  run.calls([&](int) { run.see("y", f(run.randn({6}))); });
}

// What the clock says differs from run to run; the result has to be right for what it said.
TRAP(Branch, Time) {
  auto f = run.compile([](Tensor x) {
    const bool isOdd = std::chrono::steady_clock::now().time_since_epoch().count() / 1000 % 2 == 1;
    return std::pair<bool, Tensor>(isOdd, isOdd ? x + 1 : x * 2);
  });
  run.calls([&](int) {
    Tensor x = run.randn({3});
    auto [isOdd, y] = f(x);
    run.see("right", torch::equal(y, isOdd ? x + 1 : x * 2));
  });
}

TRAP(Branch, TimeAsScalar) {
  auto f = run.compile([](Tensor x) {
    const double now =
        static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count() % 1000);
    return std::pair<double, Tensor>(now, x * now);
  });
  run.calls([&](int) {
    Tensor x = run.randn({3});
    auto [now, y] = f(x);
    run.see("right", torch::equal(y, x * now));
  });
}

TRAP(Branch, OnSizes) {
  auto f = run.compile([](Tensor x) {
    if (x.size(0) > 3)
      return x.slice(0, 0, 3).sum(1);
    return x.numel() == 4 ? x.view({4}) : x.sum(1) * x.size(1);
  });
  const std::vector<std::pair<int64_t, int64_t>> shapes{{2, 3}, {4, 3}, {2, 2}, {1, 4},
                                                        {2, 3}, {5, 1}, {3, 7}, {2, 2}};
  run.calls([&](int call) {
    auto [rows, columns] = shapes[call % shapes.size()];
    run.see("y", f(run.randn({rows, columns})));
  });
}

TRAP(Branch, OnRankTypeAndLayout) {
  auto f = run.compile([](Tensor x) {
    if (x.dim() == 1)
      return x.unsqueeze(0);
    if (x.scalar_type() == at::kDouble)
      return x.to(at::kFloat) + 1;
    return x.is_contiguous() ? x.reshape({-1}) : x.contiguous() * 2;
  });
  run.calls([&](int call) {
    Tensor x = call % 4 == 0 ? run.randn({3}) : run.randn({2, 3});
    run.see("y", f(call % 4 == 1 ? x.to(at::kDouble) : call % 4 == 2 ? x.t() : x));
  });
}

TRAP(Branch, SizesGrow) {
  auto f = run.compile([](Tensor x) {
    Tensor positions = torch::arange(x.size(1)).to(x.dtype());
    return (x + positions).view({-1}).softmax(0).view(x.sizes()).sum(0, true).expand_as(x) * x.size(1);
  });
  run.calls([&](int call) {
    Tensor y = f(run.in("x", run.randn({2, 1 + call % 5}).set_requires_grad(run.gradients())));
    run.see("y", y);
    run.backward(y);
  });
}

TRAP(Branch, SizesZeroAndOne) {
  auto f = run.compile(
      [](Tensor x) { return std::vector<Tensor>{x.sum(0), x + x.mean(), x.expand({2, -1, -1})}; });
  run.calls([&](int call) { run.see("y", f(run.randn({call % 3, 1 + call % 2}))); });
}

TRAP(Branch, ArgumentsChange) {
  auto f = run.compile([](Tensor x, int64_t count, bool negate, double factor) {
    for (int64_t i = 0; i < count; ++i)
      x = x * factor + i;
    return negate ? -x : x;
  });
  run.calls([&](int call) { run.see("y", f(run.randn({3}), int64_t(call % 4), call % 3 == 0, 0.5 + call)); });
}

TRAP(Branch, IntegerArgumentAsOperand) {
  auto f = run.compile([](Tensor x, int64_t n, bool flag) {
    return (x + n).roll(n, 0).sum(0, flag) * torch::full({2}, n).to(at::kFloat);
  });
  run.calls([&](int call) { run.see("y", f(run.randn({4, 2}), int64_t(call % 4), call % 2 == 0)); });
}

TRAP(Branch, DoubleArgumentAsOperand) {
  auto f = run.compile([](Tensor x, double p) { return x.pow(p).clamp(-p, p).add(x, p).div(p) / p; });
  run.expectSteady();
  run.calls([&](int call) { run.see("y", f(run.randn({4}).abs(), call * 0.3)); });
}

TRAP(Branch, ScalarSpecialValues) {
  auto f =
      run.compile([](Tensor x, double v) { return std::vector<Tensor>{x * v, x.fill_diagonal_(v), x + v}; });
  const double values[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-310, 0.0, NAN, 1, -0.0};
  run.calls([&](int call) { run.see("y", f(run.randn({2, 2}), values[call - 1])); });
}

TRAP(Branch, ScalarTypeChanges) {
  auto f = run.compile([](Tensor x, int64_t kind) {
    if (kind == 0)
      return x + 1;
    return kind == 1 ? x + 1.0 : x + true;
  });
  run.calls([&](int call) { run.see("y", f(torch::arange(4), int64_t(call % 3))); });
}

TRAP(Branch, EarlyReturn) {
  auto f = run.compile([](Tensor x, int64_t layers) {
    for (int64_t i = 0; i < 4; ++i) {
      x = torch::relu(x) + i;
      if (i == layers)
        return x;
      x = x * 2;
    }
    return x - 1;
  });
  run.calls([&](int call) { run.see("y", f(run.randn({3}), int64_t(call * 3 % 6))); });
}

TRAP(Branch, OneThenTheOtherOrder) {
  auto f = run.compile([](Tensor x, bool swapped) {
    Tensor a, b;
    if (swapped) {
      b = x * 2;
      a = x + 1;
    } else {
      a = x + 1;
      b = x * 2;
    }
    return a / b;
  });
  run.calls([&](int call) { run.see("y", f(run.randn({3}), call % 3 == 0)); });
}

TRAP(Branch, SameOperatorOtherOperand) {
  auto f = run.compile([](Tensor x, Tensor y, int64_t which) {
    Tensor a = x + 1, b = y + 1;
    return which % 3 == 0 ? a * b : which % 3 == 1 ? a * a : b * x;
  });
  run.calls([&](int call) { run.see("y", f(run.randn({3}), run.randn({3}), int64_t(call))); });
}

TRAP(Branch, ExpertsByValue) {
  std::vector<Tensor> experts;
  for (int i = 0; i < 4; ++i)
    experts.push_back(run.randn({3, 3}));
  auto f = run.compile([experts](Tensor x) {
    Tensor y = torch::zeros_like(x);
    for (int64_t row = 0; row < x.size(0); ++row)
      y[row] = experts[x[row].argmax().item<int64_t>()].mv(x[row]);
    return y;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3, 3}))); });
}

TRAP(Branch, EmptyProgram) {
  auto f = run.compile([](Tensor x) { return x; });
  run.mayRunUnmatched();
  run.calls([&](int) { run.see("y", f(run.in("x", run.randn({3})))); });
}

TRAP(Branch, VariableArgumentCount) {
  auto f =
      run.compile([](std::vector<Tensor> all) { return torch::cat(all) * static_cast<double>(all.size()); });
  run.calls([&](int call) {
    std::vector<Tensor> all;
    for (int i = 0; i <= call % 3; ++i)
      all.push_back(run.randn({2}));
    run.see("y", f(all));
  });
}

TRAP(Branch, StringArgument) {
  auto f = run.compile([](Tensor x, std::string mode) { return torch::div(x, 0.3, mode); });
  run.calls([&](int call) { run.see("y", f(run.randn({3}), std::string(call % 2 ? "floor" : "trunc"))); });
}

TRAP(Branch, FloatDecidesSize) {
  auto f = run.compile([](Tensor x, double end) {
    return std::vector<Tensor>{torch::arange(0.0, end, 0.4),
                               at::upsample_nearest1d(x, std::nullopt, at::ArrayRef<double>{end})};
  });
  run.calls([&](int call) { run.see("y", f(run.randn({1, 1, 4}), 0.75 + 0.5 * (call % 4))); });
}

TRAP(Branch, ComplexScalar) {
  auto f = run.compile([](Tensor x, double real) { return x * c10::complex<double>(real, 1 - real) + x; });
  run.calls([&](int call) { run.see("y", f(run.randn({2}), 0.5 * (call % 4))); });
}

TRAP(Branch, MorePathsThanAnybodyKeeps) {
  auto f = run.compile([](Tensor x, int64_t n) { return (x.roll(n % 40, 0) + 1).roll(n / 40, 0) * 2; });
  run.mayRunUnmatched();
  run.calls([&](int call) { run.see("y", f(run.randn({5}), int64_t(call))); }, 1500);
}

TRAP(Branch, LargeIntegers) {
  auto f = run.compile([](Tensor x, int64_t n) { return x + n; });
  run.calls([&](int call) { run.see("y", f(torch::arange(3), (int64_t(1) << 60) + call % 3)); });
}

TRAP(Branch, DtypeAndFormatArguments) {
  auto f = run.compile([](Tensor x, at::ScalarType dtype, at::MemoryFormat format) {
    Tensor y = (x + 1).to(dtype).contiguous(format);
    return std::vector<Tensor>{y, y.sum(at::kDouble), torch::ones({2}, y.options()),
                               x.to(x.options().dtype(dtype))};
  });
  run.calls([&](int call) {
    run.see("y", f(run.randn({1, 2, 2, 2}), call % 2 ? at::kDouble : at::kInt,
                   call % 3 ? at::MemoryFormat::Contiguous : at::MemoryFormat::ChannelsLast));
  });
}

} // namespace graphopt::soundness
