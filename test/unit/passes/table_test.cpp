// The tables of passes hang together: names, files, tests, order rows, named pipelines.
#include "passes/manager.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <sstream>

namespace graphopt::passes {
namespace {

std::string textOf(const std::filesystem::path &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(PassTable, EachRowHasItsFileAndATestThatRunsIt) {
  const std::filesystem::path root = GRAPHOPT_ROOT;
  for (const PassRow &row : passTable()) {
    std::string file(row.name);
    std::replace(file.begin(), file.end(), '-', '_');
    EXPECT_TRUE(std::filesystem::exists(root / "passes" / (file + ".cpp"))) << row.name;
    const std::string test = textOf(root / "test" / "passes" / (file + ".gir"));
    EXPECT_NE(test.find("// RUN:"), std::string::npos) << row.name;
    EXPECT_NE(test.find(row.name), std::string::npos) << row.name;
  }
}

TEST(PassTable, NamesAreUniqueAndShared) {
  std::set<std::string_view> names;
  for (const PassRow &row : passTable()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(findPass(row.name), &row);
    EXPECT_FALSE(row.help.empty()) << row.name;
  }
  for (const NamedPipeline &row : namedPipelines())
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
  EXPECT_EQ(findPass("nothing"), nullptr);
}

TEST(PassTable, OrderRowsNameRealPassesAndGiveAReason) {
  for (const OrderRow &row : orderTable()) {
    EXPECT_NE(findPass(row.before), nullptr) << row.before;
    EXPECT_NE(findPass(row.after), nullptr) << row.after;
    EXPECT_FALSE(row.why.empty()) << row.before << " before " << row.after;
  }
}

TEST(PassTable, NamedPipelinesPrintAndReadBackToThemselves) {
  for (const NamedPipeline &row : namedPipelines()) {
    const std::string text = toString(parsePipeline(row.name));
    EXPECT_FALSE(text.empty()) << row.name;
    EXPECT_EQ(toString(parsePipeline(text)), text) << row.name;
  }
}

} // namespace
} // namespace graphopt::passes
