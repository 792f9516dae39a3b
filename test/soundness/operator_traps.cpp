// Operators out of the ordinary: from TORCH_LIBRARY, with results whose size the data decides, lists, sparse,
// complex.
#include "trap.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>
#include <torch/library.h>

namespace graphopt::soundness {
namespace {

using Tensors = std::vector<Tensor>;

int64_t userState = 0;
double userScale = 1;

Tensor scaledAdd(const Tensor &x, const Tensor &y, double factor) { return x + y * factor; }
/// Says in its schema that it writes x.
Tensor bumpDeclared(Tensor x) { // NOLINT(performance-unnecessary-value-param): as the schema wants it
  return x.add_(1);
}
/// Writes x, and its schema does not say so.
Tensor bumpHidden(const Tensor &x) {
  x.detach().add_(1);
  return x * 2;
}
Tensor counted(const Tensor &x) { return x + static_cast<double>(++userState); }
/// Writes x from its second call on.
Tensor bumpLater(const Tensor &x) {
  if (userState++ > 0)
    x.detach().add_(1);
  return x * 2;
}
Tensors halves(const Tensor &x) { return x.chunk(2); }
int64_t countPositive(const Tensor &x) { return (x > 0).sum().item<int64_t>(); }
Tensor scaledByGlobal(const Tensor &x) { return x * userScale; }
Tensor positives(const Tensor &x) { return x.masked_select(x > 0); }
Tensors positiveRows(const Tensor &x) {
  Tensors rows;
  for (int64_t i = 0; i < x.size(0); ++i)
    if (x[i].item<float>() > 0)
      rows.push_back(x[i] * 1);
  return rows;
}
Tensor viaPointer(const Tensor &x) {
  Tensor y = torch::empty_like(x);
  const float *from = x.const_data_ptr<float>();
  float *to = y.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i)
    to[i] = from[i] * from[i];
  return y;
}

struct Counter : torch::CustomClassHolder {
  int64_t count = 0;
};
Tensor addCount(const Tensor &x, const c10::intrusive_ptr<Counter> &counter) { return x + ++counter->count; }

TORCH_LIBRARY(graphopt_traps, library) {
  library.class_<Counter>("Counter");
  library.def("add_count", &addCount);
  library.def("scaled_add(Tensor x, Tensor y, float factor) -> Tensor", &scaledAdd);
  library.def("bump_declared(Tensor(a!) x) -> Tensor(a!)");
  library.def("bump_hidden(Tensor x) -> Tensor", &bumpHidden);
  library.def("counted(Tensor x) -> Tensor", &counted);
  library.def("halves(Tensor(a) x) -> Tensor(a)[]", &halves);
  library.def("count_positive(Tensor x) -> int", &countPositive);
  library.def("scaled_by_global(Tensor x) -> Tensor", &scaledByGlobal);
  library.def("positives(Tensor x) -> Tensor", &positives);
  library.def("positive_rows(Tensor x) -> Tensor[]", &positiveRows);
  library.def("via_pointer(Tensor x) -> Tensor");
  const std::vector<at::Tag> promises{at::Tag::pt2_compliant_tag}; // and does not keep what it promises:
  library.def("bump_tagged(Tensor x) -> Tensor", promises);
  library.def("bump_later_tagged(Tensor x) -> Tensor", promises);
  library.def("counted_tagged(Tensor x) -> Tensor", promises);
}
TORCH_LIBRARY_IMPL(graphopt_traps, CompositeImplicitAutograd, library) {
  library.impl("bump_declared", [](Tensor x) { return bumpDeclared(std::move(x)); });
}
TORCH_LIBRARY_IMPL(graphopt_traps, CPU, library) {
  library.impl("via_pointer", &viaPointer);
  library.impl("bump_tagged", &bumpHidden);
  library.impl("bump_later_tagged", &bumpLater);
  library.impl("counted_tagged", &counted);
}

template <class Signature> auto userOperator(const char *name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

} // namespace

TRAP(Operator, OfAUser) {
  auto f = run.compile([](Tensor x, Tensor y, double factor) {
    static const auto op =
        userOperator<Tensor(const Tensor &, const Tensor &, double)>("graphopt_traps::scaled_add");
    return op.call(x.exp(), y, factor) * 2;
  });
  run.calls([&](int call) {
    Tensor z = f(run.in("x", run.randn({3}).set_requires_grad(run.gradients())), run.randn({3}), 0.25 * call);
    run.see("z", z);
    run.backward(z);
  });
}

TRAP(Operator, OfAUserWithDeclaredWrite) {
  auto f = run.compile([](Tensor x) {
    static const auto op = userOperator<Tensor(Tensor)>("graphopt_traps::bump_declared");
    Tensor y = x * 2;
    op.call(y);
    op.call(x);
    return Tensors{y + 1, x * 3};
  });
  run.calls([&](int) { run.see("y", f(run.in("x", run.randn({3})))); });
}

TRAP(Operator, OfAUserWithHiddenWrite) {
  auto f = run.compile([](Tensor x) {
    static const auto op = userOperator<Tensor(const Tensor &)>("graphopt_traps::bump_hidden");
    Tensor y = x * 2;
    Tensor z = op.call(y) + op.call(x);
    return Tensors{y + 1, z, x * 3};
  });
  run.calls([&](int) { run.see("y", f(run.in("x", run.randn({3})))); });
}

/// The tag promises that the schema says all. A write is seen while the operator is recorded, and it is never
/// put off.
TRAP(Operator, LiesAboutAWrite) {
  auto f = run.compile([](Tensor x) {
    static const auto op = userOperator<Tensor(const Tensor &)>("graphopt_traps::bump_tagged");
    const at::NoGradGuard noGrad;
    Tensor y = x * 2;
    Tensor z = op.call(y) + op.call(x);
    return Tensors{y + 1, z, x * 3};
  });
  run.calls([&](int) { run.see("y", f(run.in("x", run.randn({3})))); });
}

/// One that begins to write after it was recorded is found by the verify run, once.
TRAP(Operator, LiesAboutALaterWrite) {
  userState = 0;
  auto f = run.compile([](Tensor x) {
    static const auto op = userOperator<Tensor(const Tensor &)>("graphopt_traps::bump_later_tagged");
    const at::NoGradGuard noGrad;
    return op.call(x) + x.exp();
  });
  run.calls([&](int call) {
    Tensor x = run.in("x", run.randn({3}));
    try {
      Tensor y = f(x);
      if (call != 2) // where the verify run comes
        run.see("y", y);
    } catch (const Error &error) {
      run.see("right", "");
      if (!run.replays() || call != 2 || error.kind() != Error::Kind::User)
        run.see("wrong", describe(error));
      return;
    }
    run.see("right", "");
  });
}

/// A counter inside of an operator cannot be turned back: the verify run finds it, and has counted once more.
TRAP(Operator, LiesAboutAState) {
  userState = 0;
  auto f = run.compile([](Tensor x) {
    static const auto op = userOperator<Tensor(const Tensor &)>("graphopt_traps::counted_tagged");
    const at::NoGradGuard noGrad;
    return op.call(x) * 2;
  });
  run.calls([&](int call) {
    const int64_t before = userState;
    try {
      const float y = f(torch::zeros({1})).item<float>();
      run.see("right", y == 2 * static_cast<float>(before + 1) && userState == before + 1);
    } catch (const Error &error) {
      run.see("right",
              run.replays() && call == 2 && error.kind() == Error::Kind::User && userState == before + 2);
    }
  });
}

TRAP(Operator, OfAUserWithStateOfItsOwn) {
  userState = 0;
  auto f = run.compile([](Tensor x) {
    static const auto op = userOperator<Tensor(const Tensor &)>("graphopt_traps::counted");
    return op.call(x) * 2;
  });
  run.calls([&](int) {
    run.see("y", f(run.randn({3})));
    run.see("state", userState);
  });
}

TRAP(Operator, OfAUserThatReturnsViews) {
  auto f = run.compile([](Tensor x) {
    static const auto op = userOperator<Tensors(const Tensor &)>("graphopt_traps::halves");
    Tensor y = x * 2;
    const at::NoGradGuard noGrad;
    Tensors halves = op.call(y);
    halves[1].add_(1);
    return Tensors{y, halves[0]};
  });
  run.calls([&](int) { run.see("y", f(run.randn({4}))); });
}

TRAP(Operator, OfAUserThatReturnsANumber) {
  auto f = run.compile([](Tensor x) {
    static const auto op = userOperator<int64_t(const Tensor &)>("graphopt_traps::count_positive");
    Tensor y = x * 2;
    const int64_t count = op.call(y);
    return count > 1 ? y * count : y - 1;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Operator, OfAUserOverPointers) {
  run.needsHost();
  auto f = run.compile([](Tensor x) {
    static const auto op = userOperator<Tensor(const Tensor &)>("graphopt_traps::via_pointer");
    const at::NoGradGuard noGrad;
    return op.call(x + 1).sum() + op.call(x);
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Operator, SizesOfResultsByData) {
  auto f = run.compile([](Tensor x) {
    Tensor positive = x > 0, index = positive.nonzero();
    return Tensors{index,
                   x.masked_select(positive),
                   x.index({positive}),
                   std::get<0>(at::_unique2(x.sign())),
                   torch::where(positive)[0].to(at::kFloat) + 1,
                   x.index({index.flatten()})};
  });
  run.calls([&](int) { run.see("y", f(run.randn({5}))); });
}

TRAP(Operator, BooleanIndexWritten) {
  auto f = run.compile([](Tensor x) {
    Tensor y = x * 2;
    y.index_put_({y > 0}, 1.0);
    y.masked_fill_(y < -1, -1);
    return y + y.index({y == 1}).sum();
  });
  run.calls([&](int) { run.see("y", f(run.randn({5}))); });
}

TRAP(Operator, RepeatsByData) {
  auto f = run.compile([](Tensor x, Tensor counts) { return x.repeat_interleave(counts) * 2; });
  run.calls([&](int call) { run.see("y", f(run.randn({3}), torch::tensor({call % 3, 1, 2}))); });
}

TRAP(Operator, ListResults) {
  auto f = run.compile([](Tensor x) {
    Tensors all = x.chunk(3), more = x.split({1, 3}, 0), rows = x.unbind();
    all.insert(all.end(), more.begin(), more.end());
    all.push_back(rows[2] * 2);
    all.push_back(torch::cat(rows));
    for (const Tensor &t : torch::meshgrid({rows[0], rows[1]}, "ij"))
      all.push_back(t);
    return all;
  });
  run.calls([&](int) { run.see("y", f(run.in("x", run.randn({4, 2})))); });
}

TRAP(Operator, SeveralResults) {
  auto f = run.compile([](Tensor x) {
    auto [values, indices] = x.max(1);
    auto [sorted, order] = x.sort(0);
    auto [variance, mean] = at::var_mean(x, {1});
    return Tensors{values, indices, sorted * 2, order, variance + mean};
  });
  run.expectSteady();
  run.calls([&](int) {
    Tensors y = f(run.in("x", run.randn({3, 4}).set_requires_grad(run.gradients())));
    run.see("y", y);
    run.backward(y[4]);
  });
}

TRAP(Operator, ComplexResults) {
  auto f = run.compile([](Tensor x) {
    Tensor c = torch::complex(x, x * 2);
    return Tensors{c, c.conj(), c.conj() * c, torch::view_as_real(c), at::imag(c), at::fft_fft(x), c.abs()};
  });
  run.calls([&](int) {
    Tensors y = f(run.in("x", run.randn({4}).set_requires_grad(run.gradients())));
    run.see("y", y);
    run.backward(y[6]);
  });
}

TRAP(Operator, LazyConjugateWritten) {
  auto f = run.compile([](Tensor x) {
    const at::NoGradGuard noGrad;
    Tensor c = torch::complex(x, x), conjugate = c.conj(), negative = at::_neg_view(x);
    c.add_(1);
    return Tensors{conjugate, negative * 1, conjugate + negative};
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Operator, SparseResults) {
  auto f = run.compile([](Tensor x) {
    Tensor sparse = x.relu().to_sparse();
    return Tensors{sparse, sparse * 2, at::_sparse_mm(sparse, x.t()), sparse.to_dense() + 1};
  });
  run.calls([&](int) { run.see("y", f(run.randn({3, 4}))); });
}

TRAP(Operator, SparseArgument) {
  auto f = run.compile([](Tensor s, Tensor x) { return at::_sparse_mm(s, x + 1) * 2; });
  run.calls([&](int) { run.see("y", f(run.randn({3, 3}).relu().to_sparse(), run.randn({3, 2}))); });
}

TRAP(Operator, SparseGradients) {
  Tensor w = run.randn({5, 3}).set_requires_grad(run.gradients());
  run.watch("w", w);
  auto f = run.compile([w](Tensor i) { return torch::embedding(w, i, -1, false, /*sparse=*/true) * 2; });
  run.calls([&](int call) {
    w.mutable_grad() = Tensor();
    run.backward(f(torch::tensor({call % 5, 1, 1})));
  });
}

TRAP(Operator, NoOperatorAtAll) {
  auto f = run.compile([](Tensor x) { return std::pair<int64_t, double>(x.numel() * x.dim(), 0.5); });
  run.mayRunUnmatched();
  run.calls([&](int call) {
    auto [n, half] = f(run.randn({call, 2}));
    run.see("n", n);
    run.see("half", half);
  });
}

TRAP(Operator, ForeachLists) {
  Tensors parameters{run.randn({3}), run.randn({2, 2})};
  run.watch("first", parameters[0]);
  run.watch("second", parameters[1]);
  auto f = run.compile([parameters](Tensor x) {
    const at::NoGradGuard noGrad;
    Tensors scaled = at::_foreach_mul(parameters, 0.5);
    at::_foreach_add_(parameters, scaled);
    at::_foreach_sub_(parameters, {x, x.sum()});
    return scaled;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Operator, WrappedNumbers) {
  auto f = run.compile([](Tensor x, Tensor number) { return x * number; }); // promotes, or does not
  run.calls([&](int call) {
    Tensor number = torch::scalar_tensor(1.5, at::kDouble);
    number.unsafeGetTensorImpl()->set_wrapped_number(call % 3 != 0);
    run.see("y", f(run.randn({2}).to(at::kHalf), number));
  });
}

TRAP(Operator, KindOfArgumentChanges) {
  auto f = run.compile([](Tensor x) { return Tensors{x * 2, x.abs()}; });
  run.calls([&](int call) {
    Tensor x = run.randn({2, 2}), c = torch::complex(x, x + 1);
    const Tensors kinds{x, c, c.conj(), at::_neg_view(x), x.to(at::kBFloat16), x.to_sparse()};
    run.see("y", f(run.in("x", kinds[call % kinds.size()])));
  });
}

TRAP(Operator, OfAUserThatReadsAGlobal) {
  auto f = run.compile([](Tensor x) {
    static const auto op = userOperator<Tensor(const Tensor &)>("graphopt_traps::scaled_by_global");
    userScale = 2;
    Tensor a = op.call(x + 1);
    userScale = 3;
    return Tensors{a, op.call(x)};
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Operator, OfAUserWithSizesByData) {
  auto f = run.compile([](Tensor x) {
    static const auto one = userOperator<Tensor(const Tensor &)>("graphopt_traps::positives");
    static const auto many = userOperator<Tensors(const Tensor &)>("graphopt_traps::positive_rows");
    Tensors all = many.call(x + 0.1);
    all.push_back(one.call(x * 2) + 1);
    return all;
  });
  run.calls([&](int) { run.see("y", f(run.randn({4}))); });
}

TRAP(Operator, MetaTensors) {
  auto f = run.compile([](Tensor x) {
    Tensor shape = torch::empty({2, 3}, at::kMeta).matmul(torch::empty({3, x.size(0)}, at::kMeta));
    return x * static_cast<double>(shape.numel());
  });
  run.calls([&](int call) { run.see("y", f(run.randn({1 + call % 3}))); });
}

TRAP(Operator, Quantized) {
  auto f = run.compile([](Tensor x, double scale) {
    Tensor q = at::quantize_per_tensor(x + 1, scale, 10, at::kQInt8);
    return Tensors{q.dequantize() * 2, q.int_repr(), at::relu(q).dequantize()};
  });
  run.calls([&](int call) {
    const at::NoGradGuard noGrad;
    run.see("y", f(run.randn({4}), 0.1 + 0.05 * (call % 3)));
  });
}

TRAP(Operator, OpaqueLayout) {
  auto f = run.compile([](Tensor x) {
    const at::NoGradGuard noGrad;
    Tensor m = (x * 2).to_mkldnn();
    return Tensors{(m + m).to_dense() + 1, at::relu(m).to_dense()};
  });
  run.calls([&](int) { run.see("y", f(run.randn({2, 3}))); });
}

TRAP(Operator, ObjectOfAUser) {
  auto counter = c10::make_intrusive<Counter>();
  auto f = run.compile([counter](Tensor x) {
    static const auto op = userOperator<Tensor(const Tensor &, const c10::intrusive_ptr<Counter> &)>(
        "graphopt_traps::add_count");
    return op.call(op.call(x * 2, counter) + 1, counter);
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

} // namespace graphopt::soundness
