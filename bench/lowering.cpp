// What lowering costs: bar H5b. The graph is a captured one with gradients, for instance
//
//   graphopt dump zoo:gpt2 --input 'i64[4,1024]:0..50256' --grad --train --form functional -o gpt2.gir
//   lowering-bench gpt2.gir --benchmark_repetitions=9 --benchmark_report_aggregates_only=true
//
// Empty: no piece is known. FromDisk: a new process would find all of them in its cache. Known: they are in
// memory. Each is the whole way from the captured graph to the core stage, forward and backward.
#include "driver/lowering.h"
#include "ir/parse.h"
#include "passes/manager.h"
#include "runtime/catalog.h"

#include <benchmark/benchmark.h>

#include <fstream>
#include <iostream>
#include <sstream>
#include <stdlib.h>

namespace graphopt {
namespace {

size_t lowerToCore(const ir::Graph &captured, driver::Lowering &lowering) {
  ir::Graph graph = captured.clone();
  passes::ManagerOptions manager;
  manager.catalog = &runtime::dispatcherCatalog();
  manager.pieces = &lowering.pieces();
  manager.verifyEach = false; // as in compiled calls
  passes::runPipeline(graph, passes::parsePipeline("dce,lower{joint=on},dce,core"), manager);
  return graph.body().size();
}

void empty(benchmark::State &state, const ir::Graph &captured) {
  for (auto _ : state) {
    driver::Lowering lowering;
    benchmark::DoNotOptimize(lowerToCore(captured, lowering));
  }
}

void fromDisk(benchmark::State &state, const ir::Graph &captured, const std::filesystem::path &folder) {
  driver::Lowering first(folder);
  lowerToCore(captured, first);
  for (auto _ : state) {
    driver::Lowering lowering(folder);
    benchmark::DoNotOptimize(lowerToCore(captured, lowering));
    if (lowering.counts().forwards + lowering.counts().backwards)
      state.SkipWithError("a piece was not in the folder");
  }
}

void known(benchmark::State &state, const ir::Graph &captured) {
  driver::Lowering lowering;
  lowerToCore(captured, lowering);
  for (auto _ : state)
    benchmark::DoNotOptimize(lowerToCore(captured, lowering));
}

int run(int argc, char **argv) {
  benchmark::Initialize(&argc, argv);
  std::ifstream file(argc == 2 ? argv[1] : "");
  if (!file) {
    std::cerr << "usage: lowering-bench GRAPH.gir [--benchmark_...]\n";
    return 2;
  }
  std::stringstream text;
  text << file.rdbuf();
  const ir::Graph captured = ir::parseGraph(text.str());
  std::string folder = (std::filesystem::temp_directory_path() / "graphopt-lowering-XXXXXX").string();
  if (!mkdtemp(folder.data()))
    return 1;
  auto add = [](const char *name, auto body) {
    benchmark::RegisterBenchmark(name, body)->Unit(benchmark::kMillisecond)->UseRealTime();
  };
  add("Empty", [&](benchmark::State &state) { empty(state, captured); });
  add("FromDisk", [&](benchmark::State &state) { fromDisk(state, captured, folder); });
  add("Known", [&](benchmark::State &state) { known(state, captured); });
  benchmark::RunSpecifiedBenchmarks();
  std::filesystem::remove_all(folder);
  return 0;
}

} // namespace
} // namespace graphopt

int main(int argc, char **argv) { return graphopt::run(argc, argv); }
