// Tensors that leave a call by other ways than its result: globals, members, lambdas, containers, weak
// pointers.
#include "trap.h"

#include <ATen/core/ivalue.h>

#include <any>
#include <map>

namespace graphopt::soundness {
namespace {

using Tensors = std::vector<Tensor>;
Tensor globalTensor;

struct Pair {
  Tensor first, second;
};

} // namespace

TRAP(Escape, ThroughAGlobal) {
  auto f = run.compile([](Tensor x) {
    globalTensor = x * 2;
    return globalTensor.sum();
  });
  run.calls([&](int) {
    run.see("y", f(run.randn({3})));
    run.see("global", globalTensor);
  });
  globalTensor = Tensor();
}

TRAP(Escape, ThroughAStruct) {
  auto kept = std::make_shared<Pair>();
  auto f = run.compile([kept](Tensor x) {
    *kept = Pair{x * 2, x.t()};
    return kept->first + 1;
  });
  run.calls([&](int) {
    run.see("y", f(run.in("x", run.randn({2, 3}))));
    run.see("first", kept->first);
    run.see("second", kept->second);
  });
}

TRAP(Escape, ThroughALambda) {
  auto kept = std::make_shared<std::function<Tensor()>>();
  auto f = run.compile([kept](Tensor x) {
    Tensor h = x.exp();
    *kept = [h] { return h * 2; };
    return h + 1;
  });
  run.calls([&](int) {
    run.see("y", f(run.in("x", run.randn({3}).set_requires_grad(run.gradients()))));
    Tensor late = (*kept)();
    run.see("late", late);
    run.backward(late);
  });
}

TRAP(Escape, ThroughContainersOfEveryKind) {
  auto kept = std::make_shared<std::map<std::string, std::any>>();
  auto f = run.compile([kept](Tensor x) {
    (*kept)["list"] = c10::IValue(c10::List<Tensor>({x * 2, x * 3}));
    (*kept)["optional"] = std::optional<Tensor>(x * 4);
    (*kept)["pointer"] = std::make_shared<Tensor>(x * 5);
    return x + 1;
  });
  run.calls([&](int) {
    run.see("y", f(run.randn({3})));
    run.see("list", std::any_cast<c10::IValue &>((*kept)["list"]).toTensorVector());
    run.see("optional", std::any_cast<std::optional<Tensor> &>((*kept)["optional"]));
    run.see("pointer", *std::any_cast<std::shared_ptr<Tensor> &>((*kept)["pointer"]));
  });
}

TRAP(Escape, SometimesOnly) {
  auto kept = std::make_shared<Tensor>();
  auto f = run.compile([kept, call = 0](Tensor x) mutable {
    Tensor h = x * 2; // the operators are the same, the escape is not
    if (++call % 3 == 0)
      *kept = h;
    return h + 1;
  });
  run.calls([&](int call) {
    run.see("y", f(run.randn({3})));
    run.see("kept", *kept);
    if (call % 4 == 0)
      kept->reset();
  });
}

TRAP(Escape, EveryIntermediate) {
  auto kept = std::make_shared<Tensors>();
  auto f = run.compile([kept](Tensor x) {
    kept->clear();
    for (int i = 0; i < 10; ++i)
      kept->push_back(x = torch::tanh(x + i));
    return x;
  });
  run.calls([&](int) {
    run.see("y", f(run.in("x", run.randn({3}).set_requires_grad(run.gradients()))));
    run.see("kept", *kept);
  });
}

TRAP(Escape, ReadInALaterCall) {
  auto kept = std::make_shared<Tensors>();
  auto f = run.compile([kept](Tensor x) {
    Tensor y = kept->size() < 2 ? x * 1 : x + (*kept)[kept->size() - 2];
    kept->push_back(y * 0.5);
    return y;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Escape, ViewWrittenAfterTheCall) {
  auto kept = std::make_shared<Pair>();
  auto f = run.compile([kept](Tensor x) {
    Tensor base = x * 2;
    *kept = Pair{base, base.t().slice(0, 1)};
    return base.sum();
  });
  run.calls([&](int) {
    Tensor x = run.in("x", run.randn({2, 3}).set_requires_grad(run.gradients()));
    run.see("y", f(x));
    kept->second.mul_(3);
    run.see("base", kept->first);
    run.backward(kept->first);
  });
}

TRAP(Escape, BaseWrittenAfterTheCall) {
  auto kept = std::make_shared<Pair>();
  auto f = run.compile([kept](Tensor x) {
    Tensor base = x * 2;
    *kept = Pair{base, base[1]};
    return base.sum();
  });
  run.calls([&](int) {
    Tensor x = run.in("x", run.randn({2, 3}).set_requires_grad(run.gradients()));
    run.see("y", f(x));
    kept->first.add_(1);
    run.see("view", kept->second);
    run.backward(kept->second);
  });
}

TRAP(Escape, ViewOfAnArgumentWrittenAfterTheCall) {
  auto kept = std::make_shared<Tensor>();
  auto f = run.compile([kept](Tensor x) {
    *kept = x.view({6}).slice(0, 2);
    return x + 1;
  });
  run.calls([&](int) {
    Tensor x = run.in("x", run.randn({2, 3}));
    run.see("y", f(x));
    kept->zero_();
    run.see("x after a write into its view", x);
  });
}

TRAP(Escape, WrittenInPlaceByLaterCalls) {
  run.needsHost();
  auto kept = std::make_shared<Tensor>();
  auto f = run.compile([kept](Tensor x, bool isFirst) {
    if (isFirst) {
      *kept = x + 1;
      return kept->sum();
    }
    kept->add_(x);
    const float now = kept->data_ptr<float>()[0]; // not that of the call before
    return kept->sum() * now;
  });
  run.calls([&](int call) {
    run.see("y", f(run.randn({3}), call % 4 == 1));
    run.see("kept", *kept);
  });
}

TRAP(Escape, ResultOfOneCallIsArgumentOfTheNext) {
  auto f = run.compile([](Tensor x) { return x.sin() * 1.5; });
  run.expectSteady();
  Tensor x = run.randn({3}).set_requires_grad(run.gradients());
  Tensor y = x * 1;
  run.calls([&](int) {
    y = f(y);
    run.see("y", y);
  });
  run.backward(y);
  run.see("grad", x.grad());
}

TRAP(Escape, ResultWrittenByTheNextCall) {
  auto f = run.compile([](Tensor x) {
    x.mul_(0.5);
    return x + 1;
  });
  Tensor y = run.randn({3});
  run.calls([&](int) {
    y = f(y);
    run.see("y", y);
  });
}

TRAP(Escape, KeptAlive) {
  auto f = run.compile([](Tensor x) { return Tensors{x * 2, x * 3}; });
  Tensors all;
  run.calls([&](int) {
    Tensors y = f(run.randn({3}));
    all.insert(all.end(), y.begin(), y.end());
    run.see("all", all); // no call may write into results of another
  });
}

} // namespace graphopt::soundness
