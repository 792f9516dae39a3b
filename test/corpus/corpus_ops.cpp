// corpus-ops DATA: PyTorch's operator cases through the main job (pipeline_check.h). A case may be refused
// only if the file of --refusals, written beforehand, has its line "OPERATOR KIND reason"; anything else
// that is not equal fails. Exits 1 on a failure and when fewer than 98 % are equal.
#include "arguments.h"
#include "contents.h"
#include "dynamic_check.h"
#include "lowered_check.h"
#include "pipeline_check.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <sstream>
#include <torch/script.h>

namespace fs = std::filesystem;
using namespace graphopt::corpus;

namespace {

struct Refusal {
  std::string op, kind, reason;
};

struct Settings {
  Selection selection;
  std::string dtype = "float32";
  std::string refusalsFile;
  std::vector<Refusal> refusals;
  bool list = false, parameters = false, dynamic = false, lowered = false, core = false, kernels = false;
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
    words >> refusal.op >> refusal.kind;
    std::getline(words >> std::ws, refusal.reason);
    refusals.push_back(refusal);
  }
  return refusals;
}

Factory factoryOf(const torch::jit::Module &item) {
  return [=] {
    Instance instance;
    instance.program = graphopt::capture::torchScriptProgram(item.attr("fn").toModule());
    for (const at::Tensor &tensor : copiesWithMemory(item.attr("inputs").toTensorVector()))
      instance.args.emplace_back(tensor);
    return instance;
  };
}

CheckOptions optionsOf(const torch::jit::Module &item) {
  CheckOptions options;
  options.seed = item.attr("seed").toInt();
  options.shapeOnly = item.attr("shape_only").toBool();
  return options;
}

/// Adds lines as runFile() does, with 1 in place of the borders where the case was worked out from another.
void runDynamic(const Settings &settings, const std::string &op, const torch::jit::Module &file,
                std::string &lines) {
  std::vector<DynamicCase> cases;
  std::vector<std::string> heads;
  for (const auto &item : file.named_children()) {
    if (item.value.attr("dtype").toStringRef() != settings.dtype)
      continue;
    cases.push_back({factoryOf(item.value), optionsOf(item.value)});
    heads.push_back(fmt::format("{} {} {}", op, item.name, item.value.attr("kind").toStringRef()));
  }
  const std::vector<DynamicOutcome> outcomes = checkDynamic(cases);
  for (size_t i = 0; i < cases.size(); ++i)
    lines += fmt::format("{} {} {} dynamic: {}\n", heads[i], toString(outcomes[i].verdict),
                         static_cast<int>(outcomes[i].isDerived), outcomes[i].reason);
}

/// Adds lines as runFile() does, with the number of gradients in place of the borders.
void runLowered(const Settings &settings, const std::string &op, const torch::jit::Module &file,
                std::string &lines) {
  for (const auto &item : file.named_children()) {
    if (item.value.attr("dtype").toStringRef() != settings.dtype)
      continue;
    LoweredOptions options;
    options.seed = item.value.attr("seed").toInt();
    options.shapeOnly = item.value.attr("shape_only").toBool();
    options.arguments = item.value.attr("diff_inputs").toIntVector();
    options.gradients = !options.arguments.empty();
    options.kernels = settings.kernels;
    options.coreTolerance = settings.core ? 2e-5 : 0;
    LoweredOutcome o = checkLowered(factoryOf(item.value), options);
    if (o.inF64Alone)
      o.reason += " (equal in f64 alone)";
    if (o.isBeyond)
      o.reason += " (beyond the error rule)";
    if (!o.kernels.empty())
      o.reason += fmt::format(" [kernels: {}]", fmt::join(o.kernels, " "));
    lines += fmt::format("{} {} {} {} {} {}: {}\n", op, item.name, item.value.attr("kind").toStringRef(),
                         toString(o.verdict), o.gradients, o.step, o.reason);
  }
}

/// The ways to run each case, with a mark for its line.
std::vector<std::pair<Arguments, const char *>> waysOf(const Settings &settings) {
  if (!settings.parameters)
    return {{Arguments::Given, ""}};
  return {{Arguments::Parameters, ""}, {Arguments::ReversedParameters, "/reversed"}};
}

/// Adds lines "op case kind verdict borders step: reason" of one operator's file.
void runFile(const Settings &settings, const fs::path &path, std::string &lines) {
  std::string op = path.stem().string();
  torch::jit::Module file = torch::jit::load(path.string());
  if (settings.dynamic)
    return runDynamic(settings, op, file, lines);
  if (settings.lowered || settings.core)
    return runLowered(settings, op, file, lines);
  for (const auto &item : file.named_children()) {
    if (item.value.attr("dtype").toStringRef() != settings.dtype)
      continue;
    CheckOptions options = optionsOf(item.value);
    for (const auto &[arguments, mark] : waysOf(settings)) {
      options.arguments = arguments;
      Outcome o = check(factoryOf(item.value), options);
      lines += fmt::format("{} {} {}{} {} {} {}: {}\n", op, item.name, item.value.attr("kind").toStringRef(),
                           mark, toString(o.verdict), o.borders, o.step, o.reason);
    }
  }
}

struct Totals {
  std::map<std::string, size_t> kernels; // that ran in kernel-free probes, by operator
  size_t equal = 0, borders = 0, f64Alone = 0, beyond = 0, invalid = 0, refused = 0, failed = 0;
};

/// `kind` has the mark of the way after a slash.
bool isExpected(const Settings &settings, const std::string &op, const std::string &kind) {
  return std::ranges::any_of(settings.refusals, [&](const Refusal &refusal) {
    return refusal.op == op && refusal.kind == kind.substr(0, kind.find('/'));
  });
}

void countKernels(const std::string &line, Totals &totals) {
  const std::string mark = "[kernels: ";
  const size_t at = line.find(mark);
  if (at == std::string::npos)
    return;
  std::istringstream names(line.substr(at + mark.size(), line.find(']', at) - at - mark.size()));
  for (std::string name; names >> name;)
    ++totals.kernels[name];
}

void count(const Settings &settings, const std::string &line, Totals &totals) {
  std::istringstream words(line);
  std::string op, id, kind, verdict;
  size_t borders = 0;
  words >> op >> id >> kind >> verdict >> borders;
  if (verdict == "equal") {
    ++totals.equal;
    totals.borders += borders > 0;
    totals.f64Alone += line.find("(equal in f64 alone)") != std::string::npos;
    totals.beyond += line.find("(beyond the error rule)") != std::string::npos;
    countKernels(line, totals);
    if (settings.list)
      std::printf("%s\n", line.c_str());
    return;
  }
  if (verdict == "invalid") {
    ++totals.invalid;
    return;
  }
  bool expected = verdict == "refused" && isExpected(settings, op, kind);
  ++(expected ? totals.refused : totals.failed);
  std::printf("%s%s\n", expected ? "expected: " : "", line.c_str());
  std::fflush(stdout);
}

/// The lines of one operator, run in a process of its own: one that crashes costs only itself, and counts as
/// a failure.
std::string runOperator(const Settings &settings, const std::string &op) {
  auto work = [&] {
    std::string lines;
    try {
      runFile(settings, settings.selection.data() / "ops" / (op + ".pt"), lines);
    } catch (const std::exception &error) {
      lines += fmt::format("{} ? ? WRONG 0 load: {}\n", op, error.what());
    }
    return lines;
  };
  return inChild(work, 120);
}

std::string kernelsText(const Settings &settings, const Totals &totals) {
  std::string text;
  for (const auto &[name, cases] : totals.kernels)
    if (settings.list)
      text += fmt::format("  {} in {} cases\n", name, cases);
  return text;
}

/// The sums, and the exit status.
int finish(const Settings &settings, const Totals &totals) {
  size_t all = totals.equal + totals.refused + totals.failed;
  double share = all ? 100.0 * static_cast<double>(totals.equal) / static_cast<double>(all) : 0;
  std::string note =
      settings.parameters ? fmt::format(", of which no plan was made; {} more have no result in the "
                                        "other layout",
                                        totals.invalid)
      : settings.core
          ? fmt::format("; {} in f64 alone, {} beyond the error rule", totals.f64Alone, totals.beyond)
          : "";
  fmt::print("operator cases ({}{}): {} equal ({:.2f} %, {} of them {}{}), {} refused as listed, "
             "{} failed\n",
             settings.dtype,
             settings.dynamic      ? ", dynamic"
             : settings.core       ? ", core"
             : settings.lowered    ? ", lowered"
             : settings.parameters ? ", parameters"
                                   : "",
             totals.equal, share, totals.borders,
             settings.dynamic                    ? "worked out from others"
             : settings.lowered || settings.core ? "with gradients"
                                                 : "with borders",
             note, totals.refused, totals.failed);
  if (settings.lowered && !settings.kernels)
    fmt::print("operators whose kernels ran in kernel-free probes: {}\n{}", totals.kernels.size(),
               kernelsText(settings, totals));
  std::printf("cases: %zu passed, %zu failed\n", totals.equal + totals.refused, totals.failed);
  return totals.failed || !all || share < 98 ? 1 : 0;
}

} // namespace

int main(int argc, char **argv) {
  Settings settings;
  CLI::App app("PyTorch's operator cases through graphopt's main job");
  settings.selection.add(app, "operators");
  app.add_option("--dtype", settings.dtype, "of the cases to run (float32)")->type_name("DTYPE");
  app.add_option("--refusals", settings.refusalsFile, "the cases that may be refused")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  app.add_flag("--list", settings.list, "print equal cases too");
  app.add_flag("--parameters", settings.parameters,
               "each case twice, with arguments that require gradients under no_grad: the plan alone");
  app.add_flag("--dynamic", settings.dynamic,
               "all cases of an operator through one compiled callable with Dynamic::always");
  app.add_flag("--lowered", settings.lowered, "forward and backward at the lowered stage");
  app.add_flag("--core", settings.core, "forward and backward at the core stage");
  app.add_flag("--kernels", settings.kernels, "probes run kernels, and must show what they show without")
      ->needs("--lowered");
  if (auto status = parseArguments(app, argc, argv))
    return *status;
  settings.refusals = readRefusals(settings.refusalsFile);
  at::set_num_threads(1);
  Totals totals;
  for (const std::string &op : settings.selection.namesIn(settings.selection.data() / "ops", ".pt")) {
    std::istringstream lines(runOperator(settings, op));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("CRASH") || line.starts_with("TIMEOUT"))
        line = op + " ? ? WRONG 0 " + line;
      count(settings, line, totals);
    }
  }
  return finish(settings, totals);
}
