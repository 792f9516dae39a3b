// What lit cannot see of the manager: the kinds of errors, reports, counted executions, a shared bisect
// limit.
#include "passes/manager.h"

#include "ir/parse.h"

#include <graphopt/error.h>
#include <gtest/gtest.h>
#include <sstream>

namespace graphopt::passes {
namespace {

ir::Graph twoEqualOps() {
  return ir::parseGraph("graph @g version=1 stage=captured form=raw device=cpu {\n"
                        "  input %x: f32[4]\n"
                        "  %a: f32[4] = aten.exp(%x)\n"
                        "  %b: f32[4] = aten.exp(%x)\n"
                        "  %c: f32[4] = aten.add.Tensor(%a, %b)\n"
                        "  return %c\n}\n");
}

TEST(Manager, ReportsEachExecution) {
  ir::Graph graph = twoEqualOps();
  const auto reports = runPipeline(graph, parsePipeline("functionalize,cse,dce"));
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_TRUE(reports[0].changed);
  EXPECT_FALSE(reports[0].counted) << "what changes the form is no matter of bisecting";
  EXPECT_EQ(reports[1].name, "cse");
  EXPECT_EQ(reports[1].opsBefore, 3u);
  EXPECT_EQ(reports[1].opsAfter, 2u);
  EXPECT_EQ(reports[1].statistics.at("operators merged"), 1);
  EXPECT_FALSE(reports[2].changed);
}

TEST(Manager, BisectLimitCountsOnAcrossGraphs) {
  std::ostringstream log;
  ManagerOptions options;
  options.log = &log;
  options.bisectLimit = 1;
  ir::Graph first = twoEqualOps(), second = twoEqualOps();
  const auto reports = runPipeline(first, parsePipeline("functionalize,cse"), options);
  options.bisectStart = static_cast<int>(reports[0].counted + reports[1].counted);
  const auto later = runPipeline(second, parsePipeline("functionalize,cse"), options);
  EXPECT_TRUE(reports[1].changed);
  EXPECT_FALSE(later[0].skipped);
  EXPECT_TRUE(later[1].skipped);
  EXPECT_EQ(countOps(second), 3u);
  EXPECT_EQ(log.str(), "bisect: 1 runs 'cse' on @g\nbisect: 2 skips 'cse' on @g\n");
}

TEST(Manager, AWrongStageIsTheUsersError) {
  ir::Graph graph = twoEqualOps();
  try {
    runPipeline(graph, parsePipeline("cse"));
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), Error::Kind::User);
  }
}

TEST(Manager, ABrokenGraphIsGraphoptsError) {
  ir::Graph graph = twoEqualOps();
  try {
    runPipeline(graph, parsePipeline("test-break-ir"));
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), Error::Kind::Internal);
    EXPECT_NE(std::string(error.what()).find("last pass broke graph @g: pass 'test-break-ir' broke rule"),
              std::string::npos);
  }
}

TEST(Manager, AppendedPipelinesKeepTheOrderRows) {
  ir::Graph graph = twoEqualOps();
  Pipeline pipeline = parsePipeline("cse");
  pipeline.push_back(parsePipeline("functionalize")[0]);
  EXPECT_THROW(runPipeline(graph, pipeline), Error);
}

TEST(Tables, TimesAndCountsAddUpByPass) {
  PassReport one, two;
  one.name = two.name = "cse";
  one.milliseconds = 1.5, two.milliseconds = 0.5;
  one.statistics["operators merged"] = 2, two.statistics["operators merged"] = 3;
  const std::string times = timingTable({one, two});
  EXPECT_NE(times.find("2.000  100.0     2        0  cse"), std::string::npos) << times;
  EXPECT_EQ(statisticsTable({one, two}), "       5  cse: operators merged\n");
}

} // namespace
} // namespace graphopt::passes
