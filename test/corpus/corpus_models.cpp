// corpus-models DATA: every traced or scripted model of the model corpus through the main job
// (pipeline_check.h), or with --shadow through compile() (shadow_check.h). Prints a line a model, writes the
// table as Markdown, exits 1 when one differs from eager.
#include "arguments.h"
#include "lowered_check.h"
#include "pipeline_check.h"
#include "shadow_check.h"

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
  bool scripted = false, shadow = false, lowered = false, core = false, kernels = false, train = false;
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

ScriptedFactory scriptedOf(const fs::path &folder, const std::string &name, const std::string &suffix) {
  return [=] {
    return Scripted{torch::jit::load((folder / (name + suffix)).string()),
                    loadInputs(folder / (name + ".io.pt"))};
  };
}

/// One row: the fields between bars, so that the parent can print and count.
std::string row(const Settings &settings, const std::string &name) {
  Outcome o = check(factoryOf(settings.selection.data(), name, settings.suffix()), {.seed = 1});
  std::string why = o.reason.empty() ? "" : o.step + ": " + o.reason;
  return fmt::format("{} | {} | {} | {} | {} | {} | {} | {}", name, o.captured, o.cleaned, o.guards,
                     o.followed, o.borders, toString(o.verdict), why);
}

std::string shadowRow(const Settings &settings, const std::string &name) {
  ShadowOutcome o =
      checkShadow(scriptedOf(settings.selection.data(), name, settings.suffix()), settings.train);
  return fmt::format("{} | {} | {} | {} | {} | {} | {} | {} | {}", name, o.operators, o.atOnce, o.segments,
                     o.recordings, o.lateDivergences, o.borders, toString(o.verdict), o.reason);
}

std::string loweredRow(const Settings &settings, const std::string &name) {
  Factory make = factoryOf(settings.selection.data(), name, settings.suffix());
  LoweredOutcome o = checkLowered(make, {.seed = 1,
                                         .arguments = {},
                                         .allArguments = true,
                                         .kernels = settings.kernels,
                                         .coreTolerance = settings.core ? 1e-4 : 0});
  std::string why = o.reason.empty() ? "" : o.step + ": " + o.reason;
  return fmt::format("{} | {} | {} | {} | {} | {} | {:.1f} | {} | {}", name, o.captured, o.all, o.gradients,
                     o.probes, o.withKernels, o.lowerMs, toString(o.verdict), why);
}

/// The row of one model, run in a process of its own.
std::string runModel(const Settings &settings, const std::string &name) {
  auto work = [&] {
    return settings.shadow                     ? shadowRow(settings, name)
           : settings.lowered || settings.core ? loweredRow(settings, name)
                                               : row(settings, name);
  };
  std::string line = inChild(work, settings.timeout);
  bool isRow = line.find(" | ") != std::string::npos && !line.ends_with("TIMEOUT") &&
               line.find("CRASH") == std::string::npos;
  const char *empty =
      settings.shadow || settings.lowered || settings.core ? " | | | | | | |" : " | | | | | |";
  return isRow ? line : fmt::format("{}{} WRONG | {}", name, empty, line);
}

void writeTable(const Settings &settings, const std::vector<std::string> &rows) {
  std::ofstream out(settings.table);
  if (settings.shadow)
    out << "| model | operators | at once | segments | recordings | divergences after call 2 | borders | "
           "result | |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |\n";
  else if (settings.lowered || settings.core)
    out << "| model | operators | lowered, both ways | gradients | probes | with kernels | ms | result | |\n"
           "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |\n";
  else
    out << "| model | ops captured | after cleanup | guards | reads followed | borders | result | |\n"
           "| --- | ---: | ---: | ---: | ---: | ---: | --- | --- |\n";
  for (const std::string &line : rows)
    out << "| " << line << " |\n";
}

bool has(const std::string &row, Outcome::Verdict verdict) {
  return row.find(fmt::format(" | {} | ", toString(verdict))) != std::string::npos;
}

} // namespace

int main(int argc, char **argv) {
  Settings settings;
  CLI::App app("Public models through graphopt's main job");
  settings.selection.add(app, "models");
  app.add_flag("--scripted", settings.scripted, "the scripted models instead of the traced ones");
  auto *shadow =
      app.add_flag("--shadow", settings.shadow, "six calls in shadow mode, instead of the main job");
  app.add_flag("--lowered", settings.lowered,
               "forward and backward at the lowered stage, instead of the main job")
      ->excludes(shadow);
  app.add_flag("--core", settings.core, "forward and backward at the core stage, instead of the main job")
      ->excludes(shadow);
  app.add_flag("--kernels", settings.kernels, "probes run kernels, and must show what they show without")
      ->needs("--lowered");
  app.add_flag("--train", settings.train, "in train mode, with gradients")->needs(shadow);
  app.add_option("--table", settings.table, "write the rows as a Markdown table")->type_name("FILE");
  app.add_option("--timeout", settings.timeout, "of one model (300)")->type_name("SECONDS");
  if (auto status = parseArguments(app, argc, argv))
    return *status;
  at::set_num_threads(1);
  std::vector<std::string> rows;
  size_t equal = 0, invalid = 0;
  for (const std::string &name : settings.selection.namesIn(settings.selection.data(), ".io.pt")) {
    if (!fs::exists(settings.selection.data() / (name + settings.suffix())))
      continue;
    rows.push_back(runModel(settings, name));
    equal += has(rows.back(), Outcome::Verdict::Equal);
    invalid += has(rows.back(), Outcome::Verdict::Invalid);
    std::printf("%s\n", rows.back().c_str());
    std::fflush(stdout);
  }
  if (!settings.table.empty())
    writeTable(settings, rows);
  const size_t failed = rows.size() - equal - invalid;
  std::printf("models: %zu passed, %zu failed, %zu skipped\n", equal, failed, invalid);
  return failed > 0 || equal == 0 ? 1 : 0;
}
