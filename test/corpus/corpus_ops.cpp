// corpus-ops DATA: PyTorch's operator cases through the main job (pipeline_check.h). A case may be refused
// only if the file of --refusals, written beforehand, has its line "OPERATOR CASE-GLOB reason"; anything else
// that is not equal fails. Exits 1 on a failure and when fewer than 98 % are equal.
#include "arguments.h"
#include "pipeline_check.h"

#include <ATen/Parallel.h>
#include <cstdio>
#include <fmt/format.h>
#include <fnmatch.h>
#include <fstream>
#include <sstream>
#include <torch/script.h>

namespace fs = std::filesystem;
using namespace graphopt::corpus;

namespace {

struct Refusal {
  std::string op, caseGlob, reason;
};

struct Arguments {
  Selection selection;
  std::string dtype = "float32";
  std::string refusalsFile;
  std::vector<Refusal> refusals;
  bool list = false;
};

std::vector<Refusal> readRefusals(const std::string &path) {
  std::vector<Refusal> refusals;
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (line.empty() || line[0] == '#')
      continue;
    std::istringstream words(line);
    Refusal refusal;
    words >> refusal.op >> refusal.caseGlob;
    std::getline(words >> std::ws, refusal.reason);
    refusals.push_back(refusal);
  }
  return refusals;
}

/// The case loaded anew: as_strided reads outside its tensor, so a clone of the inputs would not be a
/// faithful copy.
Factory factoryOf(const std::string &file, const std::string &id) {
  return [=] {
    torch::jit::Module item = torch::jit::load(file).attr(id).toModule();
    Instance instance;
    instance.program = graphopt::capture::torchScriptProgram(item.attr("fn").toModule());
    for (const at::Tensor &tensor : item.attr("inputs").toTensorVector())
      instance.args.emplace_back(tensor);
    return instance;
  };
}

/// Adds lines "op case kind verdict borders step: reason" of one operator's file.
void runFile(const Arguments &arguments, const fs::path &path, std::string &lines) {
  std::string op = path.stem().string();
  torch::jit::Module file = torch::jit::load(path.string());
  for (const auto &item : file.named_children()) {
    if (item.value.attr("dtype").toStringRef() != arguments.dtype)
      continue;
    CheckOptions options;
    options.seed = item.value.attr("seed").toInt();
    options.shapeOnly = item.value.attr("shape_only").toBool();
    Outcome o = check(factoryOf(path.string(), item.name), options);
    lines += fmt::format("{} {} {} {} {} {}: {}\n", op, item.name, item.value.attr("kind").toStringRef(),
                         toString(o.verdict), o.borders, o.step, o.reason);
  }
}

struct Totals {
  size_t equal = 0, borders = 0, refused = 0, failed = 0;
};

bool isExpected(const Arguments &arguments, const std::string &op, const std::string &id) {
  for (const Refusal &refusal : arguments.refusals)
    if (refusal.op == op && fnmatch(refusal.caseGlob.c_str(), id.c_str(), 0) == 0)
      return true;
  return false;
}

void count(const Arguments &arguments, const std::string &line, Totals &totals) {
  std::istringstream words(line);
  std::string op, id, kind, verdict;
  size_t borders = 0;
  words >> op >> id >> kind >> verdict >> borders;
  if (verdict == "equal") {
    ++totals.equal;
    totals.borders += borders > 0;
    if (arguments.list)
      std::printf("%s\n", line.c_str());
    return;
  }
  bool expected = verdict == "refused" && isExpected(arguments, op, id);
  ++(expected ? totals.refused : totals.failed);
  std::printf("%s%s\n", expected ? "expected: " : "", line.c_str());
  std::fflush(stdout);
}

/// The lines of one operator, run in a process of its own: one that crashes costs only itself, and counts as
/// a failure.
std::string runOperator(const Arguments &arguments, const std::string &op) {
  auto work = [&] {
    std::string lines;
    try {
      runFile(arguments, arguments.selection.data() / "ops" / (op + ".pt"), lines);
    } catch (const std::exception &error) {
      lines += fmt::format("{} ? ? WRONG 0 load: {}\n", op, error.what());
    }
    return lines;
  };
  return inChild(work, 120);
}

/// The sums, and the exit status.
int finish(const Arguments &arguments, const Totals &totals) {
  size_t all = totals.equal + totals.refused + totals.failed;
  double share = all ? 100.0 * static_cast<double>(totals.equal) / static_cast<double>(all) : 0;
  std::printf("operator cases (%s): %zu equal (%.2f %%, %zu of them with borders), %zu refused as listed, "
              "%zu failed\n",
              arguments.dtype.c_str(), totals.equal, share, totals.borders, totals.refused, totals.failed);
  std::printf("cases: %zu passed, %zu failed\n", totals.equal + totals.refused, totals.failed);
  return totals.failed || !all || share < 98 ? 1 : 0;
}

} // namespace

int main(int argc, char **argv) {
  Arguments arguments;
  CLI::App app("PyTorch's operator cases through graphopt's main job");
  arguments.selection.add(app, "operators");
  app.add_option("--dtype", arguments.dtype, "of the cases to run (float32)")->type_name("DTYPE");
  app.add_option("--refusals", arguments.refusalsFile, "the cases that may be refused")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  app.add_flag("--list", arguments.list, "print equal cases too");
  if (auto status = parseArguments(app, argc, argv))
    return *status;
  arguments.refusals = readRefusals(arguments.refusalsFile);
  at::set_num_threads(1);
  Totals totals;
  for (const std::string &op : arguments.selection.namesIn(arguments.selection.data() / "ops", ".pt")) {
    std::istringstream lines(runOperator(arguments, op));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("CRASH") || line.starts_with("TIMEOUT"))
        line = op + " ? ? WRONG 0 " + line;
      count(arguments, line, totals);
    }
  }
  return finish(arguments, totals);
}
