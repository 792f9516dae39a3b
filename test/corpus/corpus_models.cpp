// corpus-models DATA: every traced model of the model corpus through the main job (pipeline_check.h). Prints
// a line a model, writes the table as Markdown, exits 1 when one differs from eager.
#include "arguments.h"
#include "pipeline_check.h"

#include <ATen/Parallel.h>
#include <cstdio>
#include <fmt/format.h>
#include <fstream>
#include <torch/script.h>

namespace fs = std::filesystem;
using namespace graphopt::corpus;

namespace {

struct Settings {
  Selection selection;
  std::string table;
  bool scripted = false;
  int timeout = 300;

  std::string suffix() const { return scripted ? ".script.pt" : ".pt"; }
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

/// One row: the fields between tabs, so that the parent can print and count.
std::string row(const Settings &settings, const std::string &name) {
  Outcome o = check(factoryOf(settings.selection.data(), name, settings.suffix()), {.seed = 1});
  std::string why = o.reason.empty() ? "" : o.step + ": " + o.reason;
  return fmt::format("{} | {} | {} | {} | {} | {} | {} | {}", name, o.captured, o.cleaned, o.guards,
                     o.followed, o.borders, toString(o.verdict), why);
}

/// The row of one model, run in a process of its own.
std::string runModel(const Settings &settings, const std::string &name) {
  std::string line = inChild([&] { return row(settings, name); }, settings.timeout);
  bool isRow = line.find(" | ") != std::string::npos && !line.ends_with("TIMEOUT") &&
               line.find("CRASH") == std::string::npos;
  return isRow ? line : fmt::format("{} | | | | | | WRONG | {}", name, line);
}

void writeTable(const std::string &path, const std::vector<std::string> &rows) {
  std::ofstream out(path);
  out << "| model | ops captured | after cleanup | guards | reads followed | borders | result | |\n"
         "| --- | ---: | ---: | ---: | ---: | ---: | --- | --- |\n";
  for (const std::string &line : rows)
    out << "| " << line << " |\n";
}

} // namespace

int main(int argc, char **argv) {
  Settings settings;
  CLI::App app("Public models through graphopt's main job");
  settings.selection.add(app, "models");
  app.add_flag("--scripted", settings.scripted, "the scripted models instead of the traced ones");
  app.add_option("--table", settings.table, "write the rows as a Markdown table")->type_name("FILE");
  app.add_option("--timeout", settings.timeout, "of one model (300)")->type_name("SECONDS");
  if (auto status = parseArguments(app, argc, argv))
    return *status;
  at::set_num_threads(1);
  std::vector<std::string> rows;
  size_t equal = 0;
  for (const std::string &name : settings.selection.namesIn(settings.selection.data(), ".io.pt")) {
    if (!fs::exists(settings.selection.data() / (name + settings.suffix())))
      continue;
    rows.push_back(runModel(settings, name));
    equal += rows.back().find(" | equal | ") != std::string::npos;
    std::printf("%s\n", rows.back().c_str());
    std::fflush(stdout);
  }
  if (!settings.table.empty())
    writeTable(settings.table, rows);
  std::printf("models: %zu passed, %zu failed\n", equal, rows.size() - equal);
  return equal < rows.size() || rows.empty() ? 1 : 0;
}
