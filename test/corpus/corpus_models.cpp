// corpus-models DATA: every traced or scripted model of the model corpus through the main job
// (pipeline_check.h), or in one of the other ways of kWays. Prints a line a model, writes the table as
// Markdown, exits 1 when one differs from eager.
#include "arguments.h"
#include "dry_check.h"
#include "layout_check.h"
#include "lowered_check.h"
#include "pipeline_check.h"
#include "shadow_check.h"
#include "steps_check.h"

#include <ATen/Parallel.h>
#include <cstdio>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <sstream>
#include <torch/script.h>

namespace fs = std::filesystem;
using namespace graphopt::corpus;

namespace {

struct Settings {
  Selection selection;
  std::string table, listed;
  bool scripted = false, shadow = false, lowered = false, core = false, kernels = false, train = false,
       steps = false, dry = false, layout = false, autocast = false, recompute = false;
  int timeout = 300;

  /// Training steps want the trace in train mode, where there is one.
  fs::path fileOf(const std::string &name) const {
    const std::string train = name + ".train.pt";
    if (steps && !scripted && isIndexed(train))
      return selection.data() / train;
    return selection.data() / (name + (scripted ? ".script.pt" : ".pt"));
  }

private:
  /// The index names the files that are whole and mean what they should.
  bool isIndexed(const std::string &file) const {
    std::ifstream in(selection.data() / "index.json");
    const std::string index(std::istreambuf_iterator<char>(in), {});
    return index.find("\"" + file + "\"") != std::string::npos;
  }
};

std::vector<c10::IValue> loadInputs(const fs::path &io) {
  torch::jit::Module module = torch::jit::load(io.string());
  std::vector<c10::IValue> args;
  for (int i = 0; module.hasattr("input" + std::to_string(i)); ++i)
    args.push_back(module.attr("input" + std::to_string(i)));
  return args;
}

fs::path inputsOf(const Settings &settings, const std::string &name) {
  return settings.selection.data() / (name + ".io.pt");
}

Factory factoryOf(const Settings &settings, const std::string &name) {
  return [file = settings.fileOf(name), io = inputsOf(settings, name)] {
    Instance instance;
    instance.program = graphopt::capture::loadTorchScript(file.string());
    instance.program->train(false);
    instance.args = loadInputs(io);
    return instance;
  };
}

ScriptedFactory scriptedOf(const Settings &settings, const std::string &name) {
  return [file = settings.fileOf(name), io = inputsOf(settings, name)] {
    return Scripted{torch::jit::load(file.string()), loadInputs(io)};
  };
}

/// One row: the fields between bars, so that the parent can print and count.
std::string row(const Settings &settings, const std::string &name) {
  Outcome o = check(factoryOf(settings, name), {.seed = 1});
  std::string why = o.reason.empty() ? "" : o.step + ": " + o.reason;
  return fmt::format("{} | {} | {} | {} | {} | {} | {} | {}", name, o.captured, o.cleaned, o.guards,
                     o.followed, o.borders, toString(o.verdict), why);
}

std::string shadowRow(const Settings &settings, const std::string &name) {
  ShadowOutcome o = checkShadow(scriptedOf(settings, name), settings.train);
  return fmt::format("{} | {} | {} | {} | {} | {} | {} | {} | {}", name, o.operators, o.atOnce, o.segments,
                     o.recordings, o.lateDivergences, o.borders, toString(o.verdict), o.reason);
}

std::string loweredRow(const Settings &settings, const std::string &name) {
  Factory make = factoryOf(settings, name);
  LoweredOutcome o = checkLowered(make, {.seed = 1,
                                         .arguments = {},
                                         .allArguments = true,
                                         .autocast = settings.autocast,
                                         .kernels = settings.kernels,
                                         .coreTolerance = settings.core ? 1e-4 : 0});
  std::string why = o.reason.empty() ? "" : o.step + ": " + o.reason;
  return fmt::format("{} | {} | {} | {} | {} | {} | {:.1f} | {} | {}", name, o.captured, o.all, o.gradients,
                     o.probes, o.withKernels, o.lowerMs, toString(o.verdict), why);
}

/// What is on record about files of models: "FILE KIND reason" a line.
std::map<std::string, std::string> readListed(const std::string &path) {
  std::map<std::string, std::string> listed;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string file, kind;
    if (words >> file >> kind && file[0] != '#')
      listed[file] = kind;
  }
  return listed;
}

constexpr const char *kListed = "as listed";

/// What became of a model's steps, as the list says it: nothing where they are equal and all through compiled
/// backwards.
std::string kindOf(const StepsOutcome &outcome) {
  if (outcome.verdict != Outcome::Verdict::Equal)
    return "differs";
  if (outcome.compiledRuns == 0)
    return "uncompiled";
  return outcome.otherRuns > 0 ? "partly" : "";
}

/// `kind`: what became of it, empty for what has no line in the list.
std::string verdictBy(const Settings &settings, const std::string &name, const std::string &kind,
                      std::string &reason) {
  const std::map<std::string, std::string> listed = readListed(settings.listed);
  const auto line = listed.find(settings.fileOf(name).filename().string());
  const std::string want = line == listed.end() ? "" : line->second;
  if (want == kind)
    return kind.empty() ? toString(Outcome::Verdict::Equal) : kListed;
  reason += fmt::format(" [{}, the list says {}]", kind.empty() ? "as it should be" : kind,
                        want.empty() ? "nothing" : want);
  return toString(Outcome::Verdict::Wrong);
}

std::string stepsRow(const Settings &settings, const std::string &name) {
  StepsOutcome o = checkSteps(scriptedOf(settings, name), {settings.autocast, settings.recompute});
  const std::string verdict = o.verdict == Outcome::Verdict::Invalid
                                  ? toString(o.verdict)
                                  : verdictBy(settings, name, kindOf(o), o.reason);
  const bool isTrain = settings.scripted || settings.fileOf(name).string().ends_with(".train.pt");
  return fmt::format("{} | {} | {:.4g} | {:.4g} | {} | {} | {} | {} | {}", name, isTrain ? "train" : "eval",
                     o.first, o.last, o.segments, o.compiledRuns, o.otherRuns, verdict, o.reason);
}

std::string dryRow(const Settings &settings, const std::string &name) {
  DryOutcome o = checkDry(factoryOf(settings, name), 1);
  const std::string verdict =
      o.verdict == Outcome::Verdict::Wrong
          ? toString(o.verdict)
          : verdictBy(settings, name, o.verdict == Outcome::Verdict::Refused ? "refused" : "", o.reason);
  return fmt::format("{} | {} | {:.1f} | {:.1f} | {} | {}", name, o.captured, o.dryMs, o.realMs, verdict,
                     o.reason);
}

std::string layoutRow(const Settings &settings, const std::string &name) {
  LayoutOutcome o = checkLayout(factoryOf(settings, name), {.seed = 1});
  std::string why = o.reason.empty() ? o.firstBeyond : o.step + ": " + o.reason;
  return fmt::format("{} | {} | {} | {} | {} | {} | {} | {:.3f} | {} | {} | {}", name, o.convolutions, o.left,
                     o.conversions, o.ofWeights, o.compared, o.beyond, o.ratio, o.asChannelsLast,
                     toString(o.verdict), why);
}

/// A way to check a model: the columns of its row between the name and the result.
struct Way {
  std::vector<const char *> columns;
  std::string (*row)(const Settings &settings, const std::string &name);
};

const Way kMain = {{"ops captured", "after cleanup", "guards", "reads followed", "borders"}, row};
const Way kShadow = {
    {"operators", "at once", "segments", "recordings", "divergences after call 2", "borders"}, shadowRow};
const Way kLowered = {{"operators", "lowered, both ways", "gradients", "probes", "with kernels", "ms"},
                      loweredRow};
const Way kDry = {{"operators", "dry, ms", "real, ms"}, dryRow};
const Way kLayout = {{"channels last", "convolutions left", "conversions", "of weights", "values",
                      "beyond the error rule", "error ratio", "bits of eager so"},
                     layoutRow};
const Way kSteps = {{"mode", "first loss", "last loss", "segments", "compiled runs", "other runs"}, stepsRow};

const Way &wayOf(const Settings &settings) {
  return settings.steps                      ? kSteps
         : settings.shadow                   ? kShadow
         : settings.dry                      ? kDry
         : settings.layout                   ? kLayout
         : settings.lowered || settings.core ? kLowered
                                             : kMain;
}

/// The row of one model, run in a process of its own.
std::string runModel(const Settings &settings, const std::string &name) {
  const Way &way = wayOf(settings);
  std::string line = inChild([&] { return way.row(settings, name); }, settings.timeout);
  bool isRow = line.find(" | ") != std::string::npos && !line.ends_with("TIMEOUT") &&
               line.find("CRASH") == std::string::npos;
  if (isRow)
    return line;
  std::string lost = name;
  for (size_t i = 0; i < way.columns.size(); ++i)
    lost += " | ";
  return fmt::format("{} | WRONG | {}", lost, line);
}

void writeTable(const Settings &settings, const std::vector<std::string> &rows) {
  std::ofstream out(settings.table);
  const Way &way = wayOf(settings);
  out << "| model |";
  for (const char *column : way.columns)
    out << " " << column << " |";
  out << " result | |\n| --- |";
  for (size_t i = 0; i < way.columns.size(); ++i)
    out << " ---: |";
  out << " --- | --- |\n";
  for (const std::string &line : rows)
    out << "| " << line << " |\n";
}

bool has(const std::string &row, const char *verdict) {
  return row.find(fmt::format(" | {} | ", verdict)) != std::string::npos;
}

/// Rows, and what became of them.
class Tally {
public:
  void add(const std::string &row) {
    rows_.push_back(row);
    equal_ += has(row, toString(Outcome::Verdict::Equal));
    invalid_ += has(row, toString(Outcome::Verdict::Invalid));
    listed_ += has(row, kListed);
    std::printf("%s\n", row.c_str());
    std::fflush(stdout);
  }
  const std::vector<std::string> &rows() const { return rows_; }

  /// The sums, and the exit status.
  int finish(const Settings &settings) const {
    if (settings.steps)
      sumOfSteps();
    const size_t failed = rows_.size() - equal_ - invalid_ - listed_;
    std::printf("models: %zu passed, %zu failed, %zu skipped\n", equal_ + listed_, failed, invalid_);
    return failed > 0 || equal_ == 0 ? 1 : 0;
  }

private:
  void sumOfSteps() const {
    uint64_t compiled = 0, other = 0;
    for (const std::string &row : rows_) {
      std::istringstream cells(row);
      std::string cell;
      for (int i = 0; std::getline(cells, cell, '|'); ++i)
        if (i == 5 || i == 6)
          (i == 5 ? compiled : other) += std::strtoull(cell.c_str(), nullptr, 10);
    }
    fmt::print(
        "training steps: {} models equal, {} as listed; {} runs of segments through compiled backwards, {} "
        "through autograd's nodes for a reason\n",
        equal_, listed_, compiled, other);
  }

  std::vector<std::string> rows_;
  size_t equal_ = 0, invalid_ = 0, listed_ = 0;
};

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
  app.add_flag("--autocast", settings.autocast,
               "forwards under autocast of the CPU, in bf16; with --lowered or --steps");
  app.add_flag("--train", settings.train, "in train mode, with gradients")->needs(shadow);
  auto *steps =
      app.add_flag("--steps", settings.steps,
                   "five steps of SGD through compile() beside eager, instead of the main job; traces in "
                   "train mode where DATA has them")
          ->excludes(shadow);
  app.add_flag("--recompute", settings.recompute, "what is cheap to make again is not kept for the backward")
      ->needs(steps);
  app.add_flag("--dry", settings.dry,
               "captured without kernels and for real, instead of the main job: the same graph, or refused")
      ->excludes(shadow)
      ->excludes(steps);
  app.add_flag("--layout", settings.layout,
               "forward and backward with channels last beside the recorded order, instead of the main job")
      ->excludes(shadow)
      ->excludes(steps);
  app.add_option("--listed", settings.listed,
                 "models that are refused, differ, or run uncompiled, for a reason")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  app.add_option("--table", settings.table, "write the rows as a Markdown table")->type_name("FILE");
  app.add_option("--timeout", settings.timeout, "of one model (300)")->type_name("SECONDS");
  if (auto status = parseArguments(app, argc, argv))
    return *status;
  at::set_num_threads(1);
  Tally tally;
  for (const std::string &name : settings.selection.namesIn(settings.selection.data(), ".io.pt"))
    if (fs::exists(settings.fileOf(name)))
      tally.add(runModel(settings, name));
  if (!settings.table.empty())
    writeTable(settings, tally.rows());
  return tally.finish(settings);
}
