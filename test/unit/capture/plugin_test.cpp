// Shared libraries with a program in them: two that the build makes, and files that are none.
#include "modules.h"
#include "recording.h"

#include <ATen/Functions.h>
#include <fstream>
#include <graphopt/error.h>
#include <graphopt/plugin.h>
#include <torch/nn/module.h>

namespace graphopt::capture {
namespace {

std::string messageOf(const std::function<void()> &f) {
  try {
    f();
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), Error::Kind::User);
    return error.what();
  }
  return "no error";
}

TEST(Plugin, CallsAModule) {
  auto program = loadPlugin(GOOD_PLUGIN);
  EXPECT_EQ(program->name(), "Net");
  Capture capture = recordChecked(*program, {ramp({2, 3}), c10::IValue(2.0)});
  EXPECT_EQ(operatorsOf(capture), "aten.mul.Tensor\naten.mul.Scalar\n") << bodyOf(capture);
  EXPECT_EQ(declarationsOf(capture), "param %w: f32[3] grad\n");
}

TEST(Plugin, ChecksArguments) {
  auto program = loadPlugin(GOOD_PLUGIN);
  EXPECT_EQ(messageOf([&] { program->call({ramp({2, 3})}); }), "Net: the program takes 2 arguments, got 1");
}

struct Padded : torch::nn::Module {
  at::Tensor forward(const at::Tensor &x, const std::optional<at::Tensor> &mask) {
    return mask ? x.mul(*mask) : x.neg();
  }
};

TEST(Plugin, LeavesOutOptionalArguments) {
  auto program = pluginProgram(
      {plugin::kVersion, "Padded", [] { return plugin::makeModule<Padded>(); }, "", ""}, "here");
  const at::Tensor x = ramp({3});
  EXPECT_TRUE(at::equal(program->call({x}).toTensor(), x.neg()));
  EXPECT_TRUE(at::equal(program->call({x, c10::IValue()}).toTensor(), x.neg()));
  EXPECT_TRUE(at::equal(program->call({x, x}).toTensor(), x.mul(x)));
  EXPECT_EQ(messageOf([&] { program->call({}); }), "Padded: the program takes 2 arguments, got 0");
}

TEST(Plugin, SaysWhereMakingFailed) {
  const auto make = []() -> plugin::Instance * { throw std::runtime_error("no such weights"); };
  EXPECT_EQ(messageOf([&] { pluginProgram({plugin::kVersion, "Net", make, "", ""}, "zoo:net"); }),
            "zoo:net: making the program failed: no such weights");
}

TEST(Plugin, RefusesWhatIsNone) {
  std::string path = testing::TempDir() + "text.so";
  std::ofstream(path) << "no library";
  EXPECT_EQ(messageOf([] { loadPlugin("/nowhere.so"); }), "/nowhere.so: no such file");
  EXPECT_NE(messageOf([&] { loadPlugin(path); }).find("cannot be loaded"), std::string::npos);
  EXPECT_NE(
      messageOf([] { loadPlugin(OTHER_PLUGIN); }).find("made for plugin version 999, this is version 2"),
      std::string::npos);
  EXPECT_NE(messageOf([] { loadPlugin(PLAIN_LIBRARY); }).find("has no graphopt_plugin"), std::string::npos);
}

} // namespace
} // namespace graphopt::capture
