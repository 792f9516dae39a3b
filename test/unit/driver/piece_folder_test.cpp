// Pieces on disk: a second process lowers without probing, to the same text, and nothing it finds there can
// make it wrong.
#include "driver/lowering.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "passes/manager.h"
#include "runtime/catalog.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <set>
#include <stdlib.h>
#include <sys/stat.h>

namespace graphopt {
namespace {

namespace fs = std::filesystem;

constexpr const char *kGraph = R"(graph @main version=1 stage=captured form=functional device=cpu {
  input %x: f32[4, 8] grad
  param %w: f32[16, 8] grad
  param %b: f32[16] grad

  %y: f32[4, 16] = aten.linear(%x, %w, %b)
  %z: f32[4, 16] = aten.gelu(%y)
  %p: f32[] = aten.prod(%z)
  return %z, %p
}
)";

struct Lowered {
  std::string text;
  size_t probes = 0;
};

Lowered lower(const fs::path &folder) {
  driver::Lowering lowering(folder);
  ir::Graph graph = ir::parseGraph(kGraph);
  passes::ManagerOptions manager;
  manager.catalog = &runtime::dispatcherCatalog();
  manager.pieces = &lowering.pieces();
  passes::runPipeline(graph, passes::parsePipeline("lower{joint=on},dce"), manager);
  return {ir::print(graph), lowering.counts().forwards + lowering.counts().backwards};
}

std::set<fs::path> filesIn(const fs::path &folder) {
  return {fs::directory_iterator(folder), fs::directory_iterator()};
}

class PieceFolder : public testing::Test {
protected:
  PieceFolder() {
    std::string name = (fs::temp_directory_path() / "graphopt-pieces-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~PieceFolder() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(PieceFolder, ASecondProcessProbesNothing) {
  const Lowered in = lower(""), first = lower(folder_), second = lower(folder_);
  EXPECT_EQ(first.probes, 6u); // prod has no backward piece: that answer is kept as well
  EXPECT_EQ(second.probes, 0u);
  EXPECT_EQ(first.text, in.text);
  EXPECT_EQ(second.text, in.text);
  EXPECT_EQ(filesIn(folder_).size(), 3u); // one a unit, and nothing half written
}

TEST_F(PieceFolder, FilesThatAreCutChangedOrOthersAreProbedAgain) {
  const Lowered first = lower(folder_);
  const std::set<fs::path> files = filesIn(folder_);
  for (const fs::path &file : files) {
    std::ifstream in(file);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    std::string changed = text;
    changed[changed.rfind("%t")] = '#';
    std::string wrong = text;
    wrong.replace(wrong.rfind("f32"), 3, "f64");
    for (const std::string &bad :
         {std::string(), text.substr(0, text.size() / 2), changed, wrong,
          std::string("// graphopt pieces 0 0\n") + text.substr(text.find('\n') + 1)}) {
      std::ofstream(file) << bad;
      const Lowered again = lower(folder_);
      EXPECT_GT(again.probes, 0u) << file << "\n" << bad;
      EXPECT_EQ(again.text, first.text) << bad;
    }
  }
  EXPECT_EQ(lower(folder_).probes, 0u); // and mended
  EXPECT_EQ(filesIn(folder_), files);
}

TEST_F(PieceFolder, PiecesHoldForTheSwitchesTheyWereFoundUnder) {
  const Lowered first = lower(folder_);
  const bool before = at::globalContext().userEnabledMkldnn();
  at::globalContext().setUserEnabledMkldnn(!before);
  EXPECT_EQ(lower(folder_).probes, first.probes);
  at::globalContext().setUserEnabledMkldnn(before);
  EXPECT_EQ(lower(folder_).probes, 0u);
}

TEST_F(PieceFolder, FilesWrittenLongestAgoGoBeyondASize) {
  const std::string pieces(1000, ' ');
  driver::PieceFolder first(folder_, "");
  for (const char *unit : {"a", "b", "c"}) {
    first.write(unit, pieces);
    for (const fs::path &file : filesIn(folder_)) // a day older than what comes
      fs::last_write_time(file, fs::last_write_time(file) - std::chrono::hours(24));
  }
  driver::PieceFolder second(folder_, "", 2500);
  second.write("d", pieces);
  second.write("e", pieces); // what one process needs stays while it runs
  EXPECT_FALSE(second.read("a"));
  for (const char *unit : {"b", "c", "d", "e"})
    EXPECT_EQ(second.read(unit), pieces) << unit;
}

TEST_F(PieceFolder, AFolderThatCannotBeWrittenIsNoError) {
  const fs::path file = folder_ / "file";
  std::ofstream(file) << "in the way";
  const Lowered first = lower(file / "pieces");
  EXPECT_GT(first.probes, 0u);
  EXPECT_EQ(lower(file / "pieces").text, first.text);
}

/// Sets a variable of the environment for a scope.
class WithVariable {
public:
  WithVariable(const char *name, const char *value) : name_(name) {
    if (const char *before = getenv(name))
      before_ = before;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~WithVariable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  WithVariable(const WithVariable &) = delete;
  WithVariable &operator=(const WithVariable &) = delete;

private:
  const char *name_;
  std::optional<std::string> before_;
};

TEST(PieceFolderPath, ComesFromTheEnvironment) {
  const WithVariable home("HOME", "/u"), cache("XDG_CACHE_HOME", nullptr),
      none("GRAPHOPT_CACHE_DIR", nullptr);
  EXPECT_EQ(driver::pieceFolder(), "/u/.cache/graphopt/pieces");
  const WithVariable other("XDG_CACHE_HOME", "/var/cache");
  EXPECT_EQ(driver::pieceFolder(), "/var/cache/graphopt/pieces");
  {
    const WithVariable given("GRAPHOPT_CACHE_DIR", "/data/pieces");
    EXPECT_EQ(driver::pieceFolder(), "/data/pieces");
  }
  const WithVariable off("GRAPHOPT_CACHE_DIR", "off");
  EXPECT_EQ(driver::pieceFolder(), "");
}

} // namespace
} // namespace graphopt
