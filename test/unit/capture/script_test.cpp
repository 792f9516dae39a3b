// TorchScript: the interpreter keeps other live values on the stack, does shape arithmetic in tensors, and
// knows its modules.
#include "recording.h"

#include <ATen/Functions.h>
#include <fstream>
#include <graphopt/error.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/export.h>

namespace graphopt::capture {
namespace {

torch::jit::Module scriptModule(const std::string &source) {
  torch::jit::Module module("net");
  module.register_parameter("w", ramp({3}), false);
  module.define(source);
  return module;
}

Capture recordScript(const std::string &source, std::vector<c10::IValue> args) {
  return recordChecked(*torchScriptProgram(scriptModule(source)), std::move(args));
}

TEST(Script, OtherLiveValuesOnTheStackAreLeftAlone) {
  const char *source = R"(
def forward(self, x):
    a = torch.tanh(x)
    b = torch.sigmoid(x)
    return a * b
)";
  at::Tensor x = ramp({3});
  Capture capture = recordScript(source, {x});
  EXPECT_EQ(bodyOf(capture), "%tanh: f32[3] = aten.tanh(%x)\n"
                             "%sigmoid: f32[3] = aten.sigmoid(%x)\n"
                             "%mul: f32[3] = aten.mul.Tensor(%tanh, %sigmoid)\n"
                             "return %mul\n");
  EXPECT_TRUE(at::equal(capture.result.toTensor(), at::tanh(x).mul(at::sigmoid(x))));
}

TEST(Script, ShapeArithmeticIsFollowed) {
  Capture capture = recordScript(R"(
def forward(self, x):
    n = torch.tensor(x.size(0))
    half = torch.floor_divide(n, 2)
    return x[: int(half)]
)",
                                 {ramp({6})});
  EXPECT_EQ(bordersOf(capture), "");
  EXPECT_GE(capture.stats.followedReads, 1u);
}

TEST(Script, ModulesUnderNumbersGiveNames) {
  torch::jit::Module leaf("leaf"), list("list"), net("net");
  leaf.define("def forward(self, x):\n    return torch.tanh(x)\n");
  list.register_module("0", leaf);
  list.define("def forward(self, x):\n    return getattr(self, \"0\").forward(x)\n");
  net.register_module("layers", list);
  net.define("def forward(self, x):\n    return self.layers.forward(x)\n");
  Capture capture = recordChecked(*torchScriptProgram(net), {ramp({3})});
  EXPECT_NE(bodyOf(capture).find("%layers.0: f32[3] = aten.tanh(%x)"), std::string::npos) << bodyOf(capture);
}

TEST(Script, BranchesOnDataAreBorders) {
  Capture capture = recordScript(R"(
def forward(self, x):
    if bool(x.sum() > 0):
        return x + self.w
    return x
)",
                                 {ramp({3})});
  EXPECT_EQ(capture.stats.borders, 1u) << bodyOf(capture);
}

TEST(Script, ScopesAreTheModules) {
  torch::jit::Module child("child");
  child.register_parameter("w", ramp({3}), false);
  child.define("def forward(self, x):\n    return torch.relu(x * self.w)\n");
  torch::jit::Module parent("parent");
  parent.register_module("body", child);
  parent.define("def forward(self, x):\n    return self.body.forward(torch.neg(x)) + 1\n");
  Capture capture = recordChecked(*torchScriptProgram(parent), {ramp({3})});
  EXPECT_EQ(bodyOf(capture), "%neg: f32[3] = aten.neg(%x)\n"
                             "scope \"body\"\n"
                             "%mul: f32[3] = aten.mul.Tensor(%neg, %body.w)\n"
                             "%body: f32[3] = aten.relu(%mul)\n"
                             "scope \"\"\n"
                             "%add: f32[3] = aten.add.Scalar(%body) {other=1}\n"
                             "return %add\n");
}

std::string messageOf(const std::function<void()> &f) {
  try {
    f();
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), Error::Kind::User);
    return error.what();
  }
  return "no error";
}

std::string writeFile(const std::string &name, const std::string &bytes) {
  std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(Archives, LoadAndRun) {
  std::string path = testing::TempDir() + "good.pt";
  scriptModule("def forward(self, x):\n    return x * self.w\n").save(path);
  auto program = loadTorchScript(path);
  EXPECT_EQ(program->argumentNames(), std::vector<std::string>{"x"});
  EXPECT_EQ(program->state().size(), 1u);
  Capture capture = recordChecked(*program, {ramp({3})});
  EXPECT_EQ(bodyOf(capture).substr(0, 4), "%mul");
}

TEST(Archives, BadOnesAreUserErrorsThatNameTheFile) {
  EXPECT_EQ(messageOf([] { loadTorchScript("/nowhere/m.pt"); }), "/nowhere/m.pt: no such file");
  EXPECT_EQ(messageOf([] { loadTorchScript("/"); }), "/: not a file");
  std::string good = testing::TempDir() + "whole.pt";
  scriptModule("def forward(self, x):\n    return x * self.w\n").save(good);
  std::ifstream in(good, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  for (size_t keep : {size_t(0), size_t(1), size_t(100), bytes.size() / 2, bytes.size() - 1}) {
    std::string path = writeFile("cut.pt", bytes.substr(0, keep));
    std::string message = messageOf([&] { loadTorchScript(path); });
    EXPECT_EQ(message.substr(0, path.size() + 2), path + ": ") << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

/// Every byte of the archive turned over, in turn (a stride keeps it quick): an error or a program, never a
/// crash.
TEST(Archives, DamagedOnesNeverCrash) {
  std::string good = testing::TempDir() + "sound.pt";
  scriptModule("def forward(self, x):\n    return x * self.w\n").save(good);
  std::ifstream in(good, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  size_t refused = 0;
  for (size_t at = 0; at < bytes.size(); at += 37) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(~damaged[at]);
    std::string path = writeFile("damaged.pt", damaged);
    try {
      loadTorchScript(path);
    } catch (const Error &) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0u);
}

} // namespace
} // namespace graphopt::capture
