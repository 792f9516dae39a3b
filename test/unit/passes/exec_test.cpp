// Numerics beside the text. Every graph of test/passes with an EXEC line runs as written and after the
// pipeline, on the same inputs and seed: results, what is written to the caller's tensors, strides, and what
// shares memory must agree. Lowered graphs go to the core stage.
//
//   // EXEC: B=3 seed=1 rtol=1e-5      syms, the generator's seed, and the tolerance of rules that round anew
//   (else bits)
#include "passes/manager.h"

#include "ir/parse.h"
#include "ir/print.h"
#include "runtime/catalog.h"
#include "runtime/content.h"
#include "runtime/execute.h"
#include "runtime/interpret.h"

#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <sstream>

namespace graphopt::passes {
namespace {

struct Exec {
  std::string place, text; // file and graph text
  int64_t seed = 0;
  double rtol = 0; // 0: bit for bit
  std::vector<ir::SymValue> syms;
};

void readExecLine(const std::string &line, Exec &exec) {
  std::istringstream words(line.substr(line.find(':') + 1));
  for (std::string word; words >> word;) {
    const std::string key = word.substr(0, word.find('=')), value = word.substr(word.find('=') + 1);
    if (key == "seed")
      exec.seed = std::stoll(value);
    else if (key == "rtol")
      exec.rtol = std::stod(value);
    else
      exec.syms.push_back({key, std::stoll(value)});
  }
}

std::vector<Exec> execsOf(const std::filesystem::path &path) {
  std::ifstream file(path);
  std::vector<Exec> execs(1);
  for (std::string line; std::getline(file, line);) {
    if (line == "// -----")
      execs.emplace_back();
    execs.back().text += line + "\n";
    if (line.starts_with("// EXEC:")) {
      execs.back().place = path.filename().string();
      readExecLine(line, execs.back());
    }
  }
  std::erase_if(execs, [](const Exec &exec) { return exec.place.empty(); });
  return execs;
}

int64_t sizeOf(const ir::Dim &dim, const Exec &exec) { return ir::evaluate(dim, exec.syms).value(); }

at::Tensor makeTensor(const ir::Type &type, const Exec &exec) {
  std::vector<int64_t> sizes, strides;
  for (const ir::Dim &dim : type.sizes)
    sizes.push_back(sizeOf(dim, exec));
  for (const ir::Dim &dim : type.stridesOrContiguous())
    strides.push_back(sizeOf(dim, exec));
  at::Tensor tensor = at::empty_strided(sizes, strides, at::TensorOptions(type.dtype));
  if (ir::isFloating(type.dtype) || ir::isComplex(type.dtype))
    tensor.uniform_(0.05, 0.95); // fit for probabilities and logarithms too
  else
    tensor.random_(0, 2);
  return tensor;
}

runtime::Environment makeEnvironment(const ir::Graph &graph, const Exec &exec) {
  runtime::Environment environment;
  at::manual_seed(exec.seed);
  for (const ir::Value *value : graph.declarations())
    if (value->kind != ir::Value::Kind::Const && value->kind != ir::Value::Kind::HostVal)
      environment[value->name] = makeTensor(value->type, exec);
  return environment;
}

/// What a run leaves: results, then the caller's tensors by name.
struct Outcome {
  std::vector<at::Tensor> tensors;
  std::vector<std::string> names;
};

Outcome outcome(std::vector<at::Tensor> results, const runtime::Environment &environment) {
  Outcome all{std::move(results), {}};
  for (size_t i = 0; i < all.tensors.size(); ++i)
    all.names.push_back("result " + std::to_string(i));
  for (const auto &[name, tensor] :
       std::map<std::string, at::Tensor>(environment.begin(), environment.end())) {
    all.names.push_back("%" + name);
    all.tensors.push_back(tensor);
  }
  return all;
}

Outcome interpreted(const ir::Graph &graph, const Exec &exec) {
  runtime::Environment environment = makeEnvironment(graph, exec);
  at::manual_seed(exec.seed);
  return outcome(runtime::interpret(graph, environment), environment);
}

Outcome planned(const ir::Graph &graph, const Exec &exec) {
  runtime::Environment environment = makeEnvironment(graph, exec);
  const runtime::Executor executor(runtime::buildPlan(graph));
  std::vector<at::Tensor> inputs;
  for (const runtime::PlanInput &input : executor.plan().inputs) {
    const ir::Value *value = graph.find(input.name);
    inputs.push_back(environment.contains(input.name)
                         ? environment.at(input.name)
                         : runtime::tensorFromContent(value->type, value->content));
  }
  at::manual_seed(exec.seed);
  return outcome(executor.run(inputs, exec.syms), environment);
}

void expectEqual(const Outcome &expected, const Outcome &actual, double rtol) {
  ASSERT_EQ(expected.tensors.size(), actual.tensors.size());
  for (size_t i = 0; i < expected.tensors.size(); ++i) {
    const at::Tensor &e = expected.tensors[i], &a = actual.tensors[i];
    ASSERT_EQ(e.scalar_type(), a.scalar_type()) << expected.names[i];
    EXPECT_EQ(e.sizes(), a.sizes()) << expected.names[i];
    EXPECT_EQ(e.strides(), a.strides()) << expected.names[i];
    const bool same = rtol == 0 ? at::equal(e, a) : at::allclose(e, a, rtol);
    EXPECT_TRUE(same) << expected.names[i] << ":\n" << e << "\nagainst\n" << a;
  }
  for (size_t i = 0; i < expected.tensors.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      EXPECT_EQ(expected.tensors[i].is_alias_of(expected.tensors[j]),
                actual.tensors[i].is_alias_of(actual.tensors[j]))
          << expected.names[i] << " and " << expected.names[j] << ", sharing of memory";
}

void check(const Exec &exec) {
  const ir::Graph before = ir::parseGraph(exec.text);
  SCOPED_TRACE(exec.place + " @" + before.name);
  ManagerOptions options;
  options.catalog = &runtime::dispatcherCatalog();
  options.eagerNumerics = exec.rtol == 0;
  const Outcome expected = interpreted(before, exec);
  const bool isLowered = before.stage == ir::Stage::Lowered;
  const std::vector<const char *> pipelines =
      isLowered ? std::vector{"decompose", "core"}
                : std::vector{"functionalize", "functionalize,cleanup", "O2"};
  for (const char *pipeline : pipelines) {
    ir::Graph after = before.clone();
    runPipeline(after, parsePipeline(pipeline), options);
    SCOPED_TRACE(std::string(pipeline) + ":\n" + ir::print(after));
    expectEqual(expected, interpreted(after, exec), exec.rtol);
    expectEqual(expected, planned(after, exec), exec.rtol);
  }
}

TEST(Exec, EveryExecLineOfThePassTests) {
  std::set<std::filesystem::path> files; // sorted
  const auto folder = std::filesystem::path(GRAPHOPT_ROOT) / "test" / "passes";
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".gir")
      files.insert(entry.path());
  size_t count = 0;
  for (const auto &path : files)
    for (const Exec &exec : execsOf(path)) {
      try {
        check(exec);
      } catch (const std::exception &error) {
        ADD_FAILURE() << exec.place << ": " << error.what() << "\n" << exec.text;
      }
      ++count;
    }
  EXPECT_GE(count, 50u);
}

} // namespace
} // namespace graphopt::passes
