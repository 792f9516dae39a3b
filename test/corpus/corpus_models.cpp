// corpus-models DATA [--only GLOB...] [--table FILE] [--threads N]: every traced model of the model corpus
// through the main job (pipeline_check.h). Prints a line a model, writes the table as Markdown, exits 1 when
// one differs from eager.
#include "pipeline_check.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <fnmatch.h>
#include <fstream>
#include <torch/script.h>

namespace fs = std::filesystem;
using namespace graphopt::corpus;

namespace {

struct Arguments {
  fs::path data;
  std::vector<std::string> only;
  std::string table;
  std::string suffix = ".pt"; // ".script.pt" for the scripted ones
  int timeout = 300;
};

std::vector<c10::IValue> loadInputs(const fs::path &io) {
  torch::jit::Module module = torch::jit::load(io.string());
  std::vector<c10::IValue> args;
  for (int i = 0; module.hasattr("input" + std::to_string(i)); ++i)
    args.push_back(module.attr("input" + std::to_string(i)));
  return args;
}

Factory factoryOf(const fs::path &folder, const std::string &name, const std::string &suffix) {
  return [=] {
    Instance instance;
    instance.program = graphopt::capture::loadTorchScript((folder / (name + suffix)).string());
    instance.program->train(false);
    instance.args = loadInputs(folder / (name + ".io.pt"));
    return instance;
  };
}

std::vector<std::string> namesOf(const Arguments &arguments) {
  std::vector<std::string> names;
  for (const auto &entry : fs::directory_iterator(arguments.data)) {
    std::string file = entry.path().filename().string();
    if (!file.ends_with(".io.pt"))
      continue;
    std::string name = file.substr(0, file.size() - 6);
    bool wanted = arguments.only.empty();
    for (const std::string &glob : arguments.only)
      wanted |= fnmatch(glob.c_str(), name.c_str(), 0) == 0;
    if (wanted && fs::exists(arguments.data / (name + arguments.suffix)))
      names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// One row: the fields between tabs, so that the parent can print and count.
std::string row(const Arguments &arguments, const std::string &name) {
  Outcome o = check(factoryOf(arguments.data, name, arguments.suffix), {.seed = 1});
  const char *verdict = o.verdict == Outcome::Verdict::Equal     ? "equal"
                        : o.verdict == Outcome::Verdict::Refused ? "refused"
                                                                 : "WRONG";
  std::string why = o.reason.empty() ? "" : o.step + ": " + o.reason;
  return fmt::format("{} | {} | {} | {} | {} | {} | {} | {}", name, o.captured, o.cleaned, o.guards,
                     o.followed, o.borders, verdict, why);
}

Arguments parse(int argc, char **argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--table" && i + 1 < argc)
      arguments.table = argv[++i];
    else if (word == "--scripted")
      arguments.suffix = ".script.pt";
    else if (word == "--timeout" && i + 1 < argc)
      arguments.timeout = std::stoi(argv[++i]);
    else if (word == "--only")
      while (i + 1 < argc && argv[i + 1][0] != '-')
        arguments.only.push_back(argv[++i]);
    else if (arguments.data.empty())
      arguments.data = word;
  }
  return arguments;
}

} // namespace

int main(int argc, char **argv) {
  Arguments arguments = parse(argc, argv);
  if (!fs::is_directory(arguments.data)) {
    std::fprintf(stderr,
                 "usage: corpus-models DATA [--scripted] [--only GLOB...] [--table FILE] [--timeout S]\n");
    return 2;
  }
  at::set_num_threads(1);
  std::vector<std::string> rows;
  size_t equal = 0, failed = 0;
  for (const std::string &name : namesOf(arguments)) {
    std::string line = inChild([&] { return row(arguments, name); }, arguments.timeout);
    if (line.find(" | ") == std::string::npos || line.ends_with("TIMEOUT") ||
        line.find("CRASH") != std::string::npos)
      line = fmt::format("{} | | | | | | WRONG | {}", name, line);
    bool good = line.find(" | equal | ") != std::string::npos;
    ++(good ? equal : failed);
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
    rows.push_back(line);
  }
  if (!arguments.table.empty()) {
    std::ofstream out(arguments.table);
    out << "| model | ops captured | after cleanup | guards | reads followed | borders | result | |\n"
           "| --- | ---: | ---: | ---: | ---: | ---: | --- | --- |\n";
    for (const std::string &line : rows)
      out << "| " << line << " |\n";
  }
  std::printf("models: %zu passed, %zu failed\n", equal, failed);
  return failed || rows.empty() ? 1 : 0;
}
