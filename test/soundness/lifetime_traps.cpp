// How long tensors live: memory that is freed and used again in mid-call, and what a call may not keep for
// itself.
#include "trap.h"

#include <c10/util/intrusive_ptr.h>

namespace graphopt::soundness {
namespace {

using Tensors = std::vector<Tensor>;
using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

/// A tensor whose memory says when it is let go.
Tensor counted(Tensor like, const std::shared_ptr<int> &freed) {
  like = like.contiguous();
  void *data = like.data_ptr();
  return torch::from_blob(data, like.sizes(), [like, freed](void *) { ++*freed; }, like.options());
}

} // namespace

TRAP(Lifetime, FreedAndReusedInMidCall) {
  auto f = run.compile([](Tensor x) {
    Tensor sum = torch::zeros_like(x);
    for (int i = 0; i < 20; ++i) {
      Tensor a = x * i; // freed, and its address given to the next
      a = a + 1;
      sum = sum + a;
    }
    return sum;
  });
  run.expectSteady();
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Lifetime, OutsideTensorFreedInMidCall) {
  struct Holder {
    std::shared_ptr<Tensor> held = std::make_shared<Tensor>(torch::ones({3}));
  } holder;
  auto f = run.compile([holder](Tensor x) {
    Tensor y = x + *holder.held;
    *holder.held = torch::Tensor(); // the only reference; what comes next may get its address
    *holder.held = x.detach() * 2;
    return y * *holder.held;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

// Documented: an intermediate may outlive its last reference until the call ends. What a weak pointer brings
// back is whole, or gone.
TRAP(Lifetime, WeakPointerToWhatDies) {
  auto weak = std::make_shared<std::optional<Weak>>();
  auto f = run.compile([weak](Tensor x) {
    {
      Tensor h = x * 2;
      weak->emplace(h.getIntrusivePtr());
      x = h + 1;
    }
    Tensor back((*weak)->lock());
    return std::pair<Tensor, Tensor>(x * 3, back.defined() ? back * 1 : back);
  });
  run.calls([&](int) {
    const at::NoGradGuard noGrad;
    Tensor x = run.randn({3});
    auto [y, back] = f(x);
    run.see("y", y);
    run.see("right", !back.defined() || torch::equal(back, x * 2));
    Tensor late((*weak)->lock());
    run.see("right later", !late.defined() || torch::equal(late, x * 2));
  });
}

TRAP(Lifetime, WeakPointerToWhatLives) {
  auto weak = std::make_shared<std::optional<Weak>>();
  auto f = run.compile([weak](Tensor x) {
    Tensor h = x * 2;
    weak->emplace(h.getIntrusivePtr());
    return std::pair<Tensor, Tensor>(h, h + 1);
  });
  run.calls([&](int) {
    const at::NoGradGuard noGrad;
    auto [h, y] = f(run.randn({3}));
    run.see("h", h);
    run.see("y", y);
    run.see("is h", Tensor((*weak)->lock()).is_same(h));
    h.reset();
  });
}

TRAP(Lifetime, ArgumentsAreLetGo) {
  auto freed = std::make_shared<int>(0);
  auto f = run.compile([](const Tensor &x) { return x.exp().sum() + x.relu(); });
  run.calls([&](int) {
    const at::NoGradGuard noGrad;
    run.see("y", f(counted(run.randn({3}), freed)));
    run.see("freed", *freed);
  });
}

TRAP(Lifetime, ArgumentsLiveAsLongAsTheGraph) {
  auto freed = std::make_shared<int>(0);
  Tensor w = run.randn({3}).set_requires_grad(run.gradients());
  auto f = run.compile([w](const Tensor &x) { return (x * w).sum(); });
  run.calls([&](int call) {
    Tensor y = f(counted(run.randn({3}), freed));
    run.see("freed while the graph lives", *freed);
    if (call % 2)
      run.backward(y);
    y.reset();
    run.see("freed", *freed);
  });
}

TRAP(Lifetime, ResultsAreLetGo) {
  auto f = run.compile([](Tensor x) { return Tensors{x * 2, x + 1}; });
  run.calls([&](int) {
    Tensors y = f(run.randn({3}));
    const Weak first(y[0].getIntrusivePtr());
    const c10::weak_intrusive_ptr<c10::StorageImpl> memory = y[1].storage().getWeakStorageImpl();
    run.see("alive", !first.expired() && !memory.expired());
    y.clear();
    run.see("expired", first.expired() && memory.expired());
  });
}

TRAP(Lifetime, StateThatWasReplacedIsLetGo) {
  auto state = std::make_shared<Tensor>(torch::ones({3}));
  auto f = run.compile([state](Tensor x) { return x * *state; });
  run.calls([&](int) {
    const at::NoGradGuard noGrad;
    const Weak before(state->getIntrusivePtr());
    *state = run.randn({3});
    run.see("expired before the call", before.expired());
    const Weak used(state->getIntrusivePtr());
    run.see("y", f(run.randn({3})));
    *state = torch::ones({3});
    run.see("expired", used.expired());
  });
}

// Documented: an intermediate may have one holder more than in eager execution.
TRAP(Lifetime, UseCountDecides) {
  auto f = run.compile([](Tensor x) {
    Tensor y = x * 2;
    if (y.use_count() == 1) // nobody else sees it
      y.add_(1);
    else
      y = y + 1;
    return y * 3;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Lifetime, CallableDiesBeforeItsResults) {
  Tensors kept;
  run.calls([&](int call) {
    Tensor x = run.in("x", run.randn({3}).set_requires_grad(run.gradients()));
    {
      auto intermediate = std::make_shared<Tensor>();
      auto f = run.compile([intermediate](Tensor t) {
        *intermediate = t * 2;
        return intermediate->exp();
      });
      for (int i = 0; i < 3; ++i)
        kept = {f(x), *intermediate};
    }
    run.forgetSubjects();
    run.see("kept", kept);
    run.backward(kept[call % 2]);
  });
}

TRAP(Lifetime, CallableDiesAfterAnError) {
  run.needsHost(); // an index out of range costs the process the device
  run.mayThrow();
  run.calls([&](int call) {
    Tensors kept;
    {
      auto f = run.compile([&kept](Tensor t, Tensor index) {
        kept = {t * 2};
        kept.push_back(t.gather(0, index));
        kept.push_back(t * 3);
        return kept[2] + 1;
      });
      Tensor x = run.randn({3});
      f(x, torch::tensor({0, 1}));
      try {
        f(x, torch::tensor({0, call % 2 ? 9 : 1}));
      } catch (const c10::Error &) {
        kept.resize(1); // what came before the error is there
      }
    }
    run.forgetSubjects();
    run.see("kept", kept[0]);
  });
}

TRAP(Lifetime, KeptUntilTheProcessEnds) {
  static Tensors kept;
  auto f = run.compile([](Tensor x) {
    kept.push_back(x * 2);
    return kept.back().t();
  });
  run.calls([&](int) {
    kept.push_back(f(run.randn({2, 3})));
    run.see("y", kept.back());
  });
  run.see("all", static_cast<int64_t>(kept.size() % 20));
}

} // namespace graphopt::soundness
