// Writes the small models that the tool's tests load: make-test-models DIR. TorchScript compiled from source,
// weights from a fixed seed.
#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/resolver.h>

#include <filesystem>
#include <iostream>

namespace {

using torch::jit::Module;

/// Two layers.
Module mlp() {
  Module model("Mlp");
  model.register_parameter("w1", at::randn({16, 8}), false);
  model.register_parameter("w2", at::randn({4, 16}), false);
  model.define("def forward(self, x):\n"
               "    return torch.linear(torch.relu(torch.linear(x, self.w1)), self.w2)\n");
  return model;
}

/// Writes a buffer and its argument, and returns a view.
Module stateful() {
  Module model("Stateful");
  model.register_buffer("count", at::zeros({2}));
  model.define("def forward(self, x):\n"
               "    self.count.add_(1)\n"
               "    x.mul_(2)\n"
               "    return x.t(), x + self.count[0]\n");
  return model;
}

/// The host reads a sum.
Module border() {
  Module model("Border");
  model.define("def forward(self, x):\n"
               "    if bool(x.sum() > 0):\n"
               "        return x + 1\n"
               "    return x - 1\n");
  return model;
}

/// Draws random numbers.
Module dropout() {
  Module model("Random");
  model.define("def forward(self, x):\n"
               "    return torch.dropout(x, 0.5, True)\n");
  return model;
}

/// Also knows prim operators, for what Python's compiler writes and C++'s does not.
struct WithPrims : torch::jit::NativeResolver {
  std::shared_ptr<torch::jit::SugaredValue> resolveValue(const std::string &name,
                                                         torch::jit::GraphFunction &f,
                                                         const torch::jit::SourceRange &at) override {
    if (name == "prim")
      return std::make_shared<torch::jit::BuiltinModule>("prim");
    return NativeResolver::resolveValue(name, f, at);
  }
};

/// A submodule whose forward fails as `how` says: in an operator, in one that lists the backends it has, by a
/// raise of another class, by an assertion, in an operator that reads data.
Module failing() {
  Module inner("Inner");
  inner.define("def forward(self, x, how: int):\n"
               "    if how == 0:\n"
               "        return torch.mm(x, x)\n"
               "    if how == 1:\n"
               "        return torch._values(x)\n"
               "    if how == 2:\n"
               "        prim.RaiseException('no such RuntimeError: 2' + '\\nKeyError: not this', "
               "'builtins.ValueError')\n"
               "    assert how == 4, 'an assertion'\n"
               "    return torch.embedding(x, torch.tensor([7]))\n",
               std::make_shared<WithPrims>());
  Module model("Failing");
  model.register_module("inner", inner);
  model.define("def forward(self, x, how: int):\n"
               "    return self.inner.forward(x, how)\n");
  return model;
}

/// Takes integers and a scalar.
Module lookup() {
  Module model("Lookup");
  model.register_parameter("table", at::randn({100, 4}), false);
  model.define("def forward(self, index, scale: float):\n"
               "    return torch.embedding(self.table, index) * scale\n");
  return model;
}

/// Arguments for mlp, as buffers.
Module arguments() {
  Module model("Arguments");
  model.register_buffer("input0", at::ones({2, 8}));
  model.register_buffer("alt_input0", at::ones({5, 8}));
  return model;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::cerr << "usage: make-test-models DIR\n";
    return 1;
  }
  const std::filesystem::path dir = argv[1];
  std::filesystem::create_directories(dir);
  at::manual_seed(1);
  mlp().save((dir / "mlp.pt").string());
  stateful().save((dir / "stateful.pt").string());
  border().save((dir / "border.pt").string());
  failing().save((dir / "failing.pt").string());
  dropout().save((dir / "random.pt").string());
  lookup().save((dir / "lookup.pt").string());
  arguments().save((dir / "arguments.pt").string());
}
