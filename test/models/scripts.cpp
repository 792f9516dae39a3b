// TorchScript compiled from source: the interpreter keeps other live values on the stack, does its shape
// arithmetic in integers, and has loops and branches of its own.
#include "models.h"

#include <torch/script.h>

namespace graphopt::testmodels {

namespace {

ModelCase script(std::string name, std::string source, std::vector<int64_t> shape = {4, 6}) {
  auto make = [=] {
    torch::manual_seed(7);
    torch::jit::Module module("m");
    module.register_parameter("w", at::randn({6}), false);
    module.register_buffer("b", at::zeros({6}));
    module.define(source);
    corpus::Instance instance;
    instance.program = capture::torchScriptProgram(module);
    instance.args.emplace_back(at::randn(shape));
    return instance;
  };
  return {std::move(name), make};
}

} // namespace

std::vector<ModelCase> scripts() {
  return {
      script("severalLiveValues", R"(
def forward(self, x):
    a = torch.tanh(x)
    b = torch.sigmoid(x)
    c = torch.exp(x * self.w)
    return a * b + c, a - c
)"),
      script("shapeArithmetic", R"(
def forward(self, x):
    n = x.size(0) * x.size(1) // 2
    return x.reshape(2, n), x.view(-1)[: n - 1]
)"),
      script("loopOverSize", R"(
def forward(self, x):
    y = torch.zeros_like(x[0])
    for i in range(x.size(0)):
        if i % 2 == 0:
            y = y + x[i]
        else:
            y = y * x[i]
    return y
)"),
      script("listsAndTuples", R"(
def forward(self, x):
    parts = torch.split(x, [2, 1, 3], 1)
    rows: List[Tensor] = []
    for p in parts:
        rows.append(p.sum(1))
    return torch.stack(rows), (parts[0], parts[2])
)"),
      script("bufferUpdated", R"(
def forward(self, x):
    self.b.add_(x.mean(0))
    self.b[1:3] = 0.5
    return x + self.b
)"),
      script("optionalAndKeywords", R"(
def forward(self, x):
    return torch.clamp(x, min=None, max=0.5), torch.sum(x, [0], keepdim=True, dtype=7), torch.softmax(x, -1)
)"),
      script("zeroDimIntegers", R"(
def forward(self, x):
    n = torch.tensor(x.size(1))
    half = torch.floor_divide(n, 2)
    return x[:, : int(half)]
)"),
  };
}

} // namespace graphopt::testmodels
