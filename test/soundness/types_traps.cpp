// Arguments and results of types that graphopt knows nothing of: structs, references, generators, callables.
#include "trap.h"

#include <ATen/CPUGeneratorImpl.h>

#include <any>
#include <map>
#include <memory>

namespace graphopt::soundness {
namespace {

using Tensors = std::vector<Tensor>;

struct Batch {
  Tensor images, labels;
  std::map<std::string, Tensors> extra;
  bool isLast = false;
};
struct Output {
  Tensor logits;
  std::optional<Tensor> loss;
  std::string note;
};

} // namespace

TRAP(Types, StructsInAndOut) {
  auto f = run.compile([](const Batch &batch) {
    Output output{batch.images * 2, std::nullopt, batch.isLast ? "last" : "more"};
    if (!batch.isLast)
      output.loss = (output.logits - batch.labels).pow(2).mean() + batch.extra.at("weights")[0].sum();
    return output;
  });
  run.calls([&](int call) {
    const Output output =
        f(Batch{run.randn({2, 3}), run.randn({2, 3}), {{"weights", {run.randn({2})}}}, call % 4 == 0});
    run.see("logits", output.logits);
    run.see("loss", output.loss);
    run.see("note", output.note);
  });
}

TRAP(Types, ArgumentsByReference) {
  auto f = run.compile([](Tensor &x, Tensors &all, int &count) {
    all.push_back(x);
    x = x * (0.5 * ++count);
  });
  Tensors all;
  int count = 0;
  run.calls([&](int) {
    Tensor x = run.randn({3});
    f(x, all, count);
    run.see("x", x);
    run.see("count", count);
  });
  run.see("all", all);
}

TRAP(Types, GeneratorArgument) {
  at::Generator first = at::detail::createCPUGenerator(5), second = at::detail::createCPUGenerator(6);
  auto f = run.compile([](Tensor x, at::Generator generator) {
    return Tensors{at::rand({3}, generator) + x, at::randn({2}, generator), torch::rand({2}),
                   x.clone().uniform_(0, 1, generator)};
  });
  run.calls([&](int call) {
    run.see("y", f(run.randn({3}), call % 3 ? first : second));
    run.see("first", first.get_state());
    run.see("second", second.get_state());
  });
}

TRAP(Types, CallableResult) {
  auto f = run.compile([](Tensor x) {
    Tensor h = x.exp();
    return std::make_shared<std::function<Tensor(Tensor)>>([h](Tensor y) { return h + y; });
  });
  run.calls([&](int) { run.see("y", (*f(run.randn({3})))(run.randn({3}))); });
}

TRAP(Types, CallableArgument) {
  auto f = run.compile([](Tensor x, const std::function<Tensor(Tensor)> &g) { return g(x * 2) + 1; });
  run.calls([&](int call) {
    run.see("y", call % 3 ? f(run.randn({3}), [](Tensor x) { return x.exp(); })
                          : f(run.randn({3}), [](Tensor x) { return x.neg(); }));
  });
}

TRAP(Types, PointersAndEnums) {
  enum class Activation { Relu, Tanh };
  auto f = run.compile([](const Tensor *x, Activation activation, std::unique_ptr<Tensor> &out) {
    Tensor y = activation == Activation::Relu ? x->relu() : x->tanh();
    out = std::make_unique<Tensor>(y * 2);
    return y.sum();
  });
  run.calls([&](int call) {
    Tensor x = run.randn({3});
    std::unique_ptr<Tensor> out;
    run.see("y", f(&x, call % 3 ? Activation::Relu : Activation::Tanh, out));
    run.see("out", *out);
  });
}

TRAP(Types, MoveOnlyResult) {
  auto f = run.compile([](Tensor x) { return std::make_unique<Tensor>(x * 2); });
  run.calls([&](int) { run.see("y", *f(run.randn({3}))); });
}

TRAP(Types, AnyAndIValue) {
  auto f = run.compile([](const std::any &x, const c10::IValue &y) {
    return c10::IValue(std::make_tuple(std::any_cast<Tensor>(x) * 2, y.toTensor() + 1));
  });
  run.calls([&](int) {
    const c10::IValue y = f(std::any(run.randn({3})), c10::IValue(run.randn({3})));
    run.see("first", y.toTupleRef().elements()[0].toTensor());
    run.see("second", y.toTupleRef().elements()[1].toTensor());
  });
}

TRAP(Types, NoResult) {
  auto sum = std::make_shared<Tensor>(torch::zeros({3}));
  run.watch("sum", [sum] { return *sum; });
  auto f = run.compile([sum](Tensor x) { *sum = *sum + x * 2; });
  run.calls([&](int) { f(run.randn({3})); });
}

} // namespace graphopt::soundness
