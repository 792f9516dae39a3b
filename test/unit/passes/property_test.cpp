// Every graph of test/passes goes through the whole pipeline, verified and printed back after each pass, and
// a second clean-up finds nothing to do. Without a catalog: the sanitizers run this, and marks must be
// enough.
#include "passes/manager.h"

#include "ir/parse.h"
#include "ir/print.h"

#include <filesystem>
#include <fstream>
#include <graphopt/error.h>
#include <gtest/gtest.h>
#include <set>
#include <sstream>

namespace graphopt::passes {
namespace {

std::vector<std::string> partsOf(const std::filesystem::path &path) {
  std::ifstream file(path);
  std::vector<std::string> parts(1);
  for (std::string line; std::getline(file, line);)
    if (line == "// -----")
      parts.emplace_back();
    else
      parts.back() += line + "\n";
  return parts;
}

/// Runs the graph through functional form and clean-up, or from the lowered stage to core. False when the
/// write was refused.
bool cleanUp(ir::Graph &graph) {
  std::ostringstream log;
  ManagerOptions options;
  options.verifyRoundtrip = true;
  options.eagerNumerics = false;
  options.log = &log;
  const bool isLowered = graph.stage == ir::Stage::Lowered;
  try {
    runPipeline(graph, parsePipeline(isLowered ? "core" : "O2"), options);
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), Error::Kind::User) << error.what();
    return false;
  }
  const std::string once = ir::print(graph);
  for (const PassReport &report :
       runPipeline(graph, parsePipeline(isLowered ? "cse,dce" : "cleanup"), options))
    EXPECT_FALSE(report.changed) << report.name << " on\n" << once;
  return true;
}

TEST(Properties, EveryTestGraphCleansUpToAFixpoint) {
  std::set<std::filesystem::path> files; // sorted
  for (const auto &entry : std::filesystem::directory_iterator(std::string(GRAPHOPT_ROOT) + "/test/passes"))
    if (entry.path().extension() == ".gir")
      files.insert(entry.path());
  size_t cleaned = 0, refused = 0;
  for (const auto &path : files)
    for (const std::string &part : partsOf(path)) {
      ir::Graph graph = ir::parseGraph(part);
      SCOPED_TRACE(path.filename().string() + " @" + graph.name);
      ++(cleanUp(graph) ? cleaned : refused);
    }
  EXPECT_GT(cleaned, 50u);
  EXPECT_LT(refused, 10u);
}

} // namespace
} // namespace graphopt::passes
