// One GoogleTest a trap and mode: soundness_test --gtest_filter=State.HiddenCounter/shadow
// On a GPU: GRAPHOPT_TRAP_DEVICE=cuda soundness_test
#include "trap.h"

#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

namespace graphopt::soundness {
namespace {

class TrapTest : public testing::Test {
public:
  TrapTest(const Trap &trap, const Mode &mode) : trap_(trap), mode_(mode) {}
  void TestBody() override {
    if (!trapDevice().is_cpu() && std::string_view(trap_.theme) == "HostData")
      GTEST_SKIP() << "it is about memory of the host";
    try {
      for (const std::string &text : spring(trap_, mode_))
        ADD_FAILURE_AT(trap_.file, trap_.line) << text;
    } catch (const NotHere &why) {
      GTEST_SKIP() << why.reason;
    }
  }

private:
  const Trap trap_;
  const Mode mode_;
};

void registerTraps() {
  for (const Trap &trap : traps())
    for (const Mode &mode : modes())
      testing::RegisterTest(trap.theme, (std::string(trap.name) + "/" + mode.name).c_str(), nullptr, nullptr,
                            trap.file, trap.line,
                            [&trap, &mode]() -> testing::Test * { return new TrapTest(trap, mode); });
}

} // namespace
} // namespace graphopt::soundness

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  graphopt::soundness::registerTraps();
  if (!graphopt::soundness::trapDevice().is_cpu()) {
    torch::jit::setGraphExecutorOptimize(false); // its fuser answers with other bits from some run on
    if (GTEST_FLAG_GET(filter) == "*")
      GTEST_FLAG_SET(filter, "-Harness.*"); // about the harness, with tensors of its own
  }
  return RUN_ALL_TESTS();
}
