// corpus-ops DATA [--dtype float32] [--only GLOB...] [--refusals FILE] [--list]: PyTorch's operator cases
// through the main job (pipeline_check.h). A case may be refused only if FILE, written beforehand, has its
// line "OPERATOR CASE-GLOB reason"; anything else that is not equal fails. Exits 1 on a failure and when
// fewer than 98 % are equal.
#include "pipeline_check.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <cstdio>
#include <filesystem>
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
  fs::path data;
  std::string dtype = "float32";
  std::vector<std::string> only;
  std::vector<Refusal> refusals;
  bool list = false;
};

void readRefusals(const std::string &path, std::vector<Refusal> &refusals) {
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
}

Arguments parse(int argc, char **argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--dtype" && i + 1 < argc)
      arguments.dtype = argv[++i];
    else if (word == "--refusals" && i + 1 < argc)
      readRefusals(argv[++i], arguments.refusals);
    else if (word == "--list")
      arguments.list = true;
    else if (word == "--only")
      while (i + 1 < argc && argv[i + 1][0] != '-')
        arguments.only.push_back(argv[++i]);
    else if (arguments.data.empty())
      arguments.data = word;
  }
  return arguments;
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

/// Lines "op case kind verdict borders step: reason" of one operator's file.
std::string runFile(const Arguments &arguments, const fs::path &path,
                    const std::function<void(std::string)> &say) {
  std::string op = path.stem().string();
  torch::jit::Module file = torch::jit::load(path.string());
  for (const auto &item : file.named_children()) {
    if (item.value.attr("dtype").toStringRef() != arguments.dtype)
      continue;
    CheckOptions options;
    options.seed = item.value.attr("seed").toInt();
    options.shapeOnly = item.value.attr("shape_only").toBool();
    Outcome o = check(factoryOf(path.string(), item.name), options);
    const char *verdict = o.verdict == Outcome::Verdict::Equal     ? "equal"
                          : o.verdict == Outcome::Verdict::Refused ? "refused"
                                                                   : "WRONG";
    say(fmt::format("{} {} {} {} {} {}: {}\n", op, item.name, item.value.attr("kind").toStringRef(), verdict,
                    o.borders, o.step, o.reason));
  }
  return "";
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

} // namespace

int main(int argc, char **argv) {
  Arguments arguments = parse(argc, argv);
  fs::path folder = arguments.data / "ops";
  if (!fs::is_directory(folder)) {
    std::fprintf(stderr, "usage: corpus-ops DATA [--dtype D] [--only GLOB...] [--refusals FILE] [--list]\n");
    return 2;
  }
  at::set_num_threads(1);
  std::vector<fs::path> files;
  for (const auto &entry : fs::directory_iterator(folder)) {
    bool wanted = arguments.only.empty();
    for (const std::string &glob : arguments.only)
      wanted |= fnmatch(glob.c_str(), entry.path().stem().c_str(), 0) == 0;
    if (wanted && entry.path().extension() == ".pt")
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  Totals totals;
  for (const fs::path &path : files) {
    // One process an operator: an operator that crashes costs only itself, and is counted as a failure.
    std::string text = inChild(
        [&] {
          std::string lines;
          try {
            runFile(arguments, path, [&](const std::string &line) { lines += line; });
          } catch (const std::exception &error) {
            lines += fmt::format("{} ? ? WRONG 0 load: {}\n", path.stem().string(), error.what());
          }
          return lines;
        },
        120);
    std::istringstream lines(text);
    std::string line;
    while (std::getline(lines, line)) {
      if (line.starts_with("CRASH") || line.starts_with("TIMEOUT"))
        line = path.stem().string() + " ? ? WRONG 0 " + line;
      count(arguments, line, totals);
    }
  }
  size_t all = totals.equal + totals.refused + totals.failed;
  double share = all ? 100.0 * static_cast<double>(totals.equal) / static_cast<double>(all) : 0;
  std::printf("operator cases (%s): %zu equal (%.2f %%, %zu of them with borders), %zu refused as listed, "
              "%zu failed\n",
              arguments.dtype.c_str(), totals.equal, share, totals.borders, totals.refused, totals.failed);
  std::printf("cases: %zu passed, %zu failed\n", totals.equal + totals.refused, totals.failed);
  return totals.failed || !all || share < 98 ? 1 : 0;
}
