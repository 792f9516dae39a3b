// Walks guards.def: every kind has a line in test/ir/guards.gir, which the verifier accepts.
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/stage_table.h"
#include "ir/verify.h"

#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <sstream>

using namespace graphopt::ir;

namespace {
Graph readGraph(const std::string &path, Diagnostics &diagnostics) {
  auto graphs = parseGraphs(diagnostics);
  EXPECT_TRUE(graphs) << path << "\n" << diagnostics.render();
  return graphs ? std::move(graphs->at(0)) : Graph();
}
} // namespace

TEST(Guards, EveryKindIsShownAndAccepted) {
  std::string path = GRAPHOPT_TEST_DIR "/ir/guards.gir";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  Diagnostics diagnostics(path, text.str());
  Graph graph = readGraph(path, diagnostics);
  EXPECT_TRUE(verify(graph, diagnostics)) << diagnostics.render();
  std::set<std::string_view> shown;
  for (const Guard &guard : graph.guards) {
    shown.insert(guard.kind);
    EXPECT_NE(text.str().find("// CHECK-NEXT: " + print(guard)) == std::string::npos,
              text.str().find("// CHECK: " + print(guard)) == std::string::npos)
        << print(guard);
  }
  for (const GuardRow &row : guardRows())
    EXPECT_TRUE(shown.contains(row.name)) << "no line for " << row.name << " in " << path;
}
