// TorchScript modules: loops, ifs, lists and dictionaries, state, and values that live on the interpreter's
// stack.
#include "trap.h"

#include <ATen/core/ivalue.h>

namespace graphopt::soundness {
namespace {

torch::jit::Module script(const std::string &source) {
  torch::jit::Module module("Scripted");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define(source);
  return module;
}

/// Tensors, numbers, tuples and lists of a script's result.
void see(Trial &run, const std::string &name, const c10::IValue &value) {
  if (value.isTensor())
    return run.see(name, value.toTensor());
  if (value.isTensorList())
    return run.see(name, value.toTensorVector());
  if (!value.isTuple())
    return run.see(name, c10::str(value));
  for (size_t i = 0; i < value.toTupleRef().elements().size(); ++i)
    see(run, name + "." + std::to_string(i), value.toTupleRef().elements()[i]);
}

/// Ten calls of a module with a normal 3x4 argument.
void callScript(Trial &run, const std::string &source) {
  auto f = run.compile(script(source));
  run.calls(
      [&](int) { see(run, "y", f({run.in("x", run.randn({3, 4}).set_requires_grad(run.gradients()))})); });
}

} // namespace

TRAP(Script, SeveralLiveValues) {
  run.expectSteady();
  callScript(run, R"(
def forward(self, x):
    a = torch.tanh(x)
    b = torch.sigmoid(x)
    c = a - b
    return a * b + c, b, x.size(0) * 2
)");
}

TRAP(Script, Loop) {
  run.expectSteady();
  callScript(run, R"(
def forward(self, x):
    y = x
    for i in range(5):
        y = torch.tanh(y * i + x)
    return y
)");
}

TRAP(Script, LoopOverSizes) {
  auto f = run.compile(script(R"(
def forward(self, x):
    total = torch.zeros([x.size(1)])
    for i in range(x.size(0)):
        total = total * 0.5 + x[i]
    return total
)"));
  run.calls([&](int call) { see(run, "y", f({run.randn({1 + call % 4, 2})})); });
}

TRAP(Script, WhileOnData) {
  callScript(run, R"(
def forward(self, x):
    steps = 0
    while bool(x.norm() > 0.5):
        x = x * 0.5
        steps += 1
    return x, steps
)");
}

TRAP(Script, IfOnData) {
  callScript(run, R"(
def forward(self, x):
    if bool(x.sum() > 0):
        y = x.exp()
    else:
        y = x.neg()
    return y + 1
)");
}

TRAP(Script, IfOnArgument) {
  auto f = run.compile(script(R"(
def forward(self, x, flag: bool, n: int, p: float):
    if flag:
        x = x * p
    for i in range(n):
        x = x + i
    return x
)"));
  run.calls(
      [&](int call) { see(run, "y", f({run.randn({2}), call % 3 == 0, int64_t(call % 4), 0.5 * call})); });
}

TRAP(Script, Lists) {
  callScript(run, R"(
def forward(self, x):
    parts = []
    for i in range(x.size(0)):
        parts.append(x[i] * i)
    rest = parts[1:]
    rest.append(torch.cat(parts))
    chunks = torch.chunk(x, 2, 1)
    return rest, torch.stack(parts).sum(), chunks[0] + chunks[1]
)");
}

TRAP(Script, ListsWritten) {
  callScript(run, R"(
def forward(self, x):
    y = x * 2
    a, b, c = y.detach().unbind()
    a.add_(1)
    b.mul_(a)
    return y, c
)");
}

TRAP(Script, Dictionaries) {
  callScript(run, R"(
def forward(self, x):
    d = {"a": x * 2, "b": x + 1}
    d["c"] = d["a"] - d["b"]
    total = torch.zeros([4])
    for k in d.keys():
        total = total + d[k].sum(0)
    return total, d["c"]
)");
}

TRAP(Script, OptionalsAndEarlyReturn) {
  auto f = run.compile(script(R"(
def forward(self, x, bias: Optional[Tensor]):
    if bias is not None:
        return x + bias
    return x * 2
)"));
  run.calls([&](int call) {
    see(run, "y", f({run.randn({2}), call % 3 ? c10::IValue() : c10::IValue(run.randn({2}))}));
  });
}

TRAP(Script, State) {
  torch::jit::Module module("Scripted");
  module.register_buffer("total", torch::zeros({4}));
  module.register_parameter("weight", run.randn({4}).set_requires_grad(run.gradients()), /*is_buffer=*/false);
  module.register_attribute("count", c10::IntType::get(), 0);
  module.define(R"(
def forward(self, x):
    self.count += 1
    self.total.add_(x.detach().sum(0))
    y = x * self.weight * self.count + self.total
    if self.count % 3 == 0:
        self.total = torch.zeros_like(self.total)
    return y
)");
  run.watch("total", [=] { return module.attr("total").toTensor(); });
  run.watch("weight", [=] { return module.attr("weight").toTensor(); });
  auto f = run.compile(module);
  run.calls([&](int) {
    Tensor y = f({run.randn({3, 4})}).toTensor();
    run.see("y", y);
    run.see("count", module.attr("count").toInt());
    run.backward(y);
  });
}

TRAP(Script, AttributesChangedFromOutside) {
  torch::jit::Module module("Scripted");
  module.register_attribute("scale", c10::FloatType::get(), 1.0);
  module.register_attribute("weight", c10::TensorType::get(), torch::ones({4}));
  module.define("def forward(self, x):\n    return x * self.scale + self.weight\n");
  auto f = run.compile(module);
  run.calls([&](int call) {
    module.setattr("scale", 0.5 * call);
    if (call % 3 == 0)
      module.setattr("weight", run.randn({4}));
    see(run, "y", f({run.randn({3, 4})}));
  });
}

TRAP(Script, TrainingFlag) {
  auto f = run.compile(script(R"(
def forward(self, x):
    return torch.dropout(x, 0.5, self.training)
)"));
  run.calls([&](int call) {
    f.module().train(call % 3 != 0);
    see(run, "y", f({run.randn({3, 4})}));
  });
}

TRAP(Script, RaisesAndAsserts) {
  run.mayThrow();
  callScript(run, R"(
def forward(self, x):
    y = x * 2
    assert bool(x.sum() > -3), "negative"
    assert bool(y.max() > 1), "small"
    return y
)");
}

TRAP(Script, ShapeArithmetic) {
  auto f = run.compile(script(R"(
def forward(self, x):
    n, m = x.shape
    y = x.view(n * m // 2, 2)
    k = int(torch.tensor(n) * 2)
    return y.reshape(m, n), torch.zeros([k, m]).size(), x.flatten()[: n + m]
)"));
  run.calls([&](int call) { see(run, "y", f({run.randn({2 + 2 * (call % 3), 4})})); });
}

TRAP(Script, MethodsAndNestedModules) {
  auto inner = std::make_shared<torch::jit::Module>("Inner");
  inner->register_parameter("w", run.randn({4, 4}).set_requires_grad(run.gradients()), /*is_buffer=*/false);
  inner->define("def forward(self, x):\n    return torch.relu(torch.matmul(x, self.w))\n");
  torch::jit::Module module("Outer");
  module.register_module("inner", *inner);
  module.define(R"(
def twice(self, x):
    return self.inner.forward(self.inner.forward(x))
def forward(self, x):
    return self.twice(x) + self.twice(x * 2)
)");
  run.watch("w", inner->attr("w").toTensor());
  auto f = run.compile(module);
  run.calls([&](int) {
    Tensor y = f({run.randn({3, 4})}).toTensor();
    run.see("y", y);
    run.backward(y);
  });
}

TRAP(Script, InPlaceOnArgument) {
  auto f = run.compile(script(R"(
def forward(self, x):
    x[0] = 5
    x[:, 1] *= 2
    v = x.t()
    v[2].zero_()
    return x.sum(), v
)"));
  run.calls([&](int) { see(run, "y", f({run.in("x", run.randn({3, 4}))})); });
}

TRAP(Script, ItemsAndPython) {
  callScript(run, R"(
def forward(self, x):
    n = int(x.abs().sum()) % 3
    p = float(x[0, 0])
    values: List[float] = x[0].tolist()
    total = 0.0
    for v in values:
        total += v
    return x[:n] * p, total, "%d" % n
)");
}

TRAP(Script, CalledFromAProgram) {
  auto module = std::make_shared<torch::jit::Module>(script(R"(
def forward(self, x):
    y = torch.tanh(x)
    for i in range(2):
        y = y * x + i
    return y, x.size(0)
)"));
  auto f = run.compile([module](Tensor x) {
    const c10::IValue result = module->forward({x * 2});
    return result.toTupleRef().elements()[0].toTensor() + result.toTupleRef().elements()[1].toInt();
  });
  run.calls([&](int) { run.see("y", f(run.randn({3, 4}))); });
}

} // namespace graphopt::soundness
