// Errors: thrown by the host before, between and after operators, and by operators; what the call did before
// stays.
#include "trap.h"

#include <stdexcept>

namespace graphopt::soundness {
namespace {

using Tensors = std::vector<Tensor>;

void throwIf(bool condition, const char *where) {
  if (condition)
    throw std::out_of_range(where);
}

} // namespace

TRAP(Error, BeforeAnyOperator) {
  run.mayThrow();
  auto f = run.compile([call = 0](Tensor x) mutable {
    throwIf(++call % 3 == 0, "before");
    return x * 2;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Error, BetweenOperators) {
  run.mayThrow();
  Tensor w = torch::zeros({3});
  run.watch("w", w);
  auto f = run.compile([w, call = 0](Tensor x) mutable {
    x.add_(1);
    w.add_(x);
    throwIf(++call % 3 == 0, "between");
    w.mul_(2);
    return x * w;
  });
  run.calls([&](int) {
    const at::NoGradGuard noGrad;
    run.see("y", f(run.in("x", run.randn({3}))));
  });
}

TRAP(Error, AfterAllOperators) {
  run.mayThrow();
  Tensor w = torch::zeros({3});
  run.watch("w", w);
  auto f = run.compile([w, call = 0](Tensor x) mutable {
    w.add_(x);
    Tensor y = x * w;
    throwIf(++call % 4 < 2, "after");
    return y;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Error, InFirstCallOnly) {
  run.mayThrow();
  auto kept = std::make_shared<Tensor>();
  auto f = run.compile([kept, call = 0](Tensor x) mutable {
    *kept = x * 2;
    throwIf(++call == 1, "first");
    return *kept + 1;
  });
  run.calls([&](int) {
    try {
      run.see("y", f(run.randn({3})));
    } catch (const std::out_of_range &error) {
      run.see("caught", error.what());
    }
    run.see("kept", *kept);
  });
}

TRAP(Error, EscapedBeforeIt) {
  run.mayThrow();
  auto kept = std::make_shared<Tensors>();
  auto f = run.compile([kept](Tensor x, int64_t when) {
    for (int64_t i = 0; i < 4; ++i) {
      throwIf(i == when, "when");
      x = x * 2 + i;
      kept->push_back(x);
    }
    return x;
  });
  run.calls([&](int call) {
    kept->clear();
    try {
      run.see("y", f(run.randn({3}), int64_t(call % 6)));
    } catch (const std::out_of_range &) {
      run.see("kept", *kept);
      throw;
    }
  });
}

TRAP(Error, CaughtInside) {
  auto f = run.compile([call = 0](Tensor x) mutable {
    Tensor y = x * 2;
    try {
      y = y + 1;
      throwIf(++call % 2 == 0, "inside");
      y = y.exp();
    } catch (const std::out_of_range &) {
      y = y.neg();
    }
    return y * 3;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Error, ShapeMismatch) {
  run.mayThrow();
  Tensor w = torch::zeros({3});
  run.watch("w", w);
  auto f = run.compile([w](Tensor x, Tensor y) {
    w.add_(1);
    Tensor z = x.matmul(y);
    w.add_(1);
    return z + 1;
  });
  run.calls([&](int call) { run.see("z", f(run.randn({2, 3}), run.randn({call % 3 ? 3 : 4, 2}))); });
}

TRAP(Error, ShapeMismatchCaughtInside) {
  auto f = run.compile([](Tensor x) {
    Tensor y = x * 2;
    try {
      y = y.view({7});
    } catch (const c10::Error &) {
      y = y.view({-1});
    }
    return y + 1;
  });
  run.calls([&](int call) { run.see("y", f(run.randn({call % 3 ? 6 : 7}))); });
}

TRAP(Error, AlwaysOfTheOperator) {
  run.mayThrow();
  auto f = run.compile([](Tensor x) { return x.view({7}) + 1; });
  run.mayRunUnmatched();
  run.calls([&](int) { run.see("y", f(run.randn({6}))); });
}

// Only the data shows it. The error comes from the operator or from a later one of the same call; it is
// eager's.
TRAP(Error, IndexOutOfRange) {
  run.needsHost();
  run.mayThrow();
  auto f = run.compile([](Tensor x, Tensor index) { return x.index_select(0, index) * 2; });
  run.calls([&](int call) {
    const int64_t last = call % 3 == 0 ? 9 : 1;
    run.see("y", f(run.randn({3}), torch::tensor({int64_t(0), last})));
  });
}

TRAP(Error, IndexOutOfRangeAfterWrites) {
  run.needsHost();
  run.mayThrow();
  Tensor w = torch::zeros({3});
  run.watch("w", w);
  auto f = run.compile([w](Tensor x, Tensor index) {
    w.add_(1);
    Tensor y = torch::embedding(x, index);
    w.add_(10); // not reached when the index is bad
    return y * 2;
  });
  run.calls([&](int call) {
    const at::NoGradGuard noGrad;
    const int64_t last = call % 3 == 0 ? 9 : 1;
    run.see("y", f(run.in("x", run.randn({3, 2})), torch::tensor({int64_t(0), last})));
  });
}

TRAP(Error, IndexOutOfRangeCaughtInside) {
  run.needsHost();
  auto f = run.compile([](Tensor x, Tensor index) {
    Tensor y = x * 2;
    try {
      Tensor z = y.gather(0, index);
      return z.sum().item<float>() > 0 ? z : -z; // the border is inside of the try block
    } catch (const c10::Error &) {
      return y * 100;
    }
  });
  run.calls([&](int call) {
    const int64_t last = call % 3 == 0 ? 9 : 1;
    run.see("y", f(run.randn({3}), torch::tensor({int64_t(0), last})));
  });
}

// Documented: an error that only the data shows comes when the segment runs, which may be after the try
// block. It is never lost.
TRAP(Error, IndexOutOfRangeAfterTheTryBlock) {
  run.needsHost();
  auto f = run.compile([](Tensor x, Tensor index) {
    Tensor y = x * 2;
    try {
      y = y.gather(0, index);
    } catch (const c10::Error &) {
      y = y * 100;
    }
    return y + 1;
  });
  run.calls([&](int call) {
    const bool isBad = call % 3 == 0;
    Tensor x = run.randn({3}), index = torch::tensor({int64_t(0), int64_t(isBad ? 9 : 1)});
    try {
      Tensor y = f(x, index), want = isBad ? x * 2 * 100 + 1 : (x * 2).gather(0, index) + 1;
      run.see("right", torch::equal(y, want));
    } catch (const c10::Error &error) {
      run.see("right", run.replays() && isBad && describe(error).find("out of bounds") != std::string::npos);
    }
  });
}

// Documented: the variable got its new value, which was never computed; in eager it keeps the old one.
TRAP(Error, ResultOfAFailedOperator) {
  auto f = run.compile([](Tensor x, Tensor index) {
    Tensor y = x * 2;
    try {
      y = y.gather(0, index);
      y.sum().item<float>();
    } catch (const c10::Error &) {
      return y * 100;
    }
    return y + 1;
  });
  run.calls([&](int call) {
    const bool isBad = call % 3 == 0;
    Tensor x = run.randn({3}), index = torch::tensor({int64_t(0), int64_t(isBad ? 9 : 1)});
    try {
      Tensor y = f(x, index), want = isBad ? x * 2 * 100 : (x * 2).gather(0, index) + 1;
      run.see("right", torch::equal(y, want));
    } catch (const Error &error) {
      run.see("right", run.replays() && isBad && error.kind() == Error::Kind::User);
    }
  });
}

TRAP(Error, SingularMatrix) {
  run.mayThrow();
  auto f = run.compile([](Tensor a) { return at::linalg_inv(a) + 1; });
  run.calls([&](int call) { run.see("y", f(call % 3 ? run.randn({3, 3}) : torch::zeros({3, 3}))); });
}

TRAP(Error, AssertAsync) {
  run.needsHost(); // elsewhere the process loses the device
  run.mayThrow();
  auto f = run.compile([](Tensor x) {
    at::_assert_async((x > -1).all(), "too small");
    return x * 2;
  });
  run.calls([&](int) { run.see("y", f(run.randn({2}))); });
}

TRAP(Error, InBackwardInside) {
  run.mayThrow();
  Tensor w = run.randn({3}).set_requires_grad(run.gradients());
  run.watch("w", w);
  auto f = run.compile([w](Tensor x) {
    Tensor y = (w * x).exp();
    y.register_hook([](const Tensor &) -> void { throw std::runtime_error("in a hook"); });
    y.sum().backward();
    return y;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Error, OfAnotherKindThanStdException) {
  auto f = run.compile([call = 0](Tensor x) mutable {
    Tensor y = x * 2;
    if (++call % 3 == 0)
      throw call;
    return y + 1;
  });
  run.calls([&](int) {
    try {
      run.see("y", f(run.randn({3})));
    } catch (int call) {
      run.see("caught", call);
    }
  });
}

TRAP(Error, WrongTypeOfArgument) {
  run.mayThrow();
  auto f = run.compile([](Tensor x) { return torch::embedding(torch::ones({3, 2}), x) + 1; });
  run.calls([&](int call) { run.see("y", f(call % 2 ? torch::tensor({0, 1}) : run.randn({2}))); });
}

TRAP(Error, UndefinedTensorUsed) {
  run.mayThrow();
  auto f = run.compile([](Tensor x, Tensor y) { return x * 2 + y; });
  run.calls([&](int call) { run.see("y", f(run.randn({2}), call % 3 ? run.randn({2}) : Tensor())); });
}

TRAP(Error, DestructorRunsOperators) {
  run.mayThrow();
  struct AddAtExit {
    Tensor w;
    ~AddAtExit() { w.add_(1); }
  };
  Tensor w = torch::zeros({3});
  run.watch("w", w);
  auto f = run.compile([w, call = 0](Tensor x) mutable {
    const AddAtExit atExit{w};
    Tensor y = x * w;
    throwIf(++call % 3 == 0, "inside");
    return y * 2;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Error, OperatorFailsInTheFirstCall) {
  run.mayThrow();
  Tensor w = torch::zeros({3});
  run.watch("w", w);
  auto f = run.compile([w](Tensor x, Tensor index) {
    w.add_(1);
    Tensor y = x.index_select(0, index);
    w.add_(10);
    return y * 2;
  });
  run.calls([&](int call) { run.see("y", f(run.randn({3}), torch::tensor({0, call % 3 == 1 ? 9 : 1}))); });
}

} // namespace graphopt::soundness
