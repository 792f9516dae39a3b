// Many threads at once on what they share: the operator tables, pass tables and the log. Each makes graphs of
// its own.
#include "driver/log.h"
#include "ir/effects.h"
#include "ir/op_table.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "passes/manager.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace graphopt {
namespace {

// Before the first message: the log reads its variable once.
const bool isLogging = ::setenv("GRAPHOPT_LOG", "shadow,guards", 1) == 0;

constexpr int kThreads = 4;

const std::string kText = "graph @g version=1 stage=captured form=raw device=cpu {\n"
                          "  input %x: f32[4]\n"
                          "  %a: f32[4] = aten.exp(%x)\n"
                          "  %b: f32[4] = aten.exp(%x)\n"
                          "  %c: f32[4] = aten.add_.Tensor(&mut %a, %b)\n"
                          "  return %a\n}\n";

template <class F> void atOnce(F work) {
  std::atomic<int> waiting{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&work, &waiting, t] {
      for (--waiting; waiting > 0;)
        std::this_thread::yield();
      work(t);
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(Threads, TablesAreReadAtOnce) {
  atOnce([](int) {
    EXPECT_TRUE(ir::findAten("aten.batch_norm"));
    EXPECT_FALSE(ir::findAten("aten.nothing"));
    EXPECT_TRUE(ir::findPrim("prim.exp"));
  });
}

TEST(Threads, GraphsAreParsedTransformedAndPrintedAtOnce) {
  std::vector<std::string> texts(kThreads);
  atOnce([&](int thread) {
    for (int i = 0; i < 20; ++i) {
      ir::Graph graph = ir::parseGraph(kText);
      passes::runPipeline(graph, passes::parsePipeline("functionalize,cleanup"));
      ir::Diagnostics diagnostics("thread", "");
      EXPECT_TRUE(ir::verify(graph, diagnostics));
      texts[thread] = ir::print(graph);
    }
  });
  for (const std::string &text : texts)
    EXPECT_EQ(text, texts[0]);
}

size_t linesWith(const std::string &text, const std::string &part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

TEST(Threads, TheLogKeepsLinesWholeAndSaysOnlySoMuch) {
  ASSERT_TRUE(isLogging);
  testing::internal::CaptureStderr();
  atOnce([](int thread) {
    for (int i = 0; i < 1000; ++i)
      driver::log(driver::Channel::shadow, "thread " + std::to_string(thread) + "\nsecond line");
    driver::log(driver::Channel::recompiles, "of a channel that is off");
  });
  driver::log(driver::Channel::guards, "another channel");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(linesWith(text, "[graphopt:shadow] thread "), 200u);
  EXPECT_EQ(linesWith(text, "[graphopt:shadow] second line\n"), 200u);
  EXPECT_EQ(linesWith(text, "counted for a while, not said"), 1u);
  EXPECT_EQ(linesWith(text, "[graphopt:guards] another channel\n"), 1u);
  EXPECT_EQ(linesWith(text, "recompiles"), 0u);
  EXPECT_EQ(linesWith(text, "\n"), linesWith(text, "[graphopt:"));
}

} // namespace
} // namespace graphopt
