// Pipelines as text: "functionalize,canonicalize,cse{max-ops=32,seed=1}", with named pipelines spelled like
// passes.
//
//   pipeline ::= (step (',' step)*)?      step ::= NAME ('{' NAME '=' TEXT (',' NAME '=' TEXT)* '}')?
//
// A named pipeline is replaced by its passes while parsing, so a printed pipeline has passes only and reads
// back to itself. It may name rows above its own, which is why expansion ends.
#include "passes/manager.h"

#include <algorithm>
#include <fmt/format.h>
#include <graphopt/error.h>
#include <span>

namespace graphopt::passes {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos)
    return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

/// Cuts at the commas outside braces.
std::vector<std::string_view> splitSteps(std::string_view text) {
  std::vector<std::string_view> steps;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{' && ++depth > 1)
      userError(fmt::format("pass pipeline '{}' opens a brace inside braces", text));
    if (text[i] == '}' && --depth < 0)
      userError(fmt::format("pass pipeline '{}' closes a brace that is not open", text));
    if (text[i] == ',' && depth == 0) {
      steps.push_back(trimmed(text.substr(start, i - start)));
      start = i + 1;
    }
  }
  if (depth != 0)
    userError(fmt::format("pass pipeline '{}' does not close a brace", text));
  steps.push_back(trimmed(text.substr(start)));
  return steps;
}

bool takesOption(const PassRow &row, std::string_view option) {
  std::string_view rest = row.options;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    if (word == option)
      return true;
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  }
  return false;
}

void addOption(PipelineStep &step, std::string_view text) {
  const size_t equals = text.find('=');
  const std::string name(trimmed(text.substr(0, equals)));
  if (equals == std::string_view::npos || name.empty())
    userError(fmt::format("option '{}' of pass '{}' has no value: write name=value", text, step.pass->name));
  if (!takesOption(*step.pass, name))
    userError(fmt::format("pass '{}' has no option '{}', its options are: {}", step.pass->name, name,
                          step.pass->options.empty() ? "none" : step.pass->options));
  if (!step.options.emplace(name, trimmed(text.substr(equals + 1))).second)
    userError(fmt::format("option '{}' of pass '{}' is given twice", name, step.pass->name));
}

std::string knownNames() {
  std::string names;
  for (const PassRow &row : passTable())
    if (!row.hidden)
      names += (names.empty() ? "" : ", ") + std::string(row.name);
  for (const NamedPipeline &row : namedPipelines())
    names += ", " + std::string(row.name);
  return names;
}

void parseSteps(std::string_view text, std::span<const NamedPipeline> named, Pipeline &pipeline);

/// One pass with its options, or the passes of a named pipeline among `named`.
void parseStep(std::string_view text, std::span<const NamedPipeline> named, Pipeline &pipeline) {
  const size_t brace = text.find('{');
  const std::string_view name = trimmed(text.substr(0, brace));
  for (size_t i = 0; i < named.size(); ++i) {
    if (named[i].name != name)
      continue;
    if (brace != std::string_view::npos)
      userError(fmt::format("pipeline '{}' takes no options", name));
    return parseSteps(named[i].text, named.first(i), pipeline);
  }
  PipelineStep step{findPass(name), {}};
  if (!step.pass)
    userError(fmt::format("there is no pass '{}', known are: {}", name, knownNames()));
  if (brace != std::string_view::npos) {
    if (text.back() != '}')
      userError(fmt::format("pass '{}' is followed by '{}': separate passes by commas", name,
                            text.substr(text.find('}') + 1)));
    const std::string_view inside = trimmed(text.substr(brace + 1, text.size() - brace - 2));
    if (!inside.empty())
      for (size_t start = 0; start <= inside.size();) {
        const size_t comma = std::min(inside.find(',', start), inside.size());
        addOption(step, trimmed(inside.substr(start, comma - start)));
        start = comma + 1;
      }
  }
  pipeline.push_back(std::move(step));
}

void parseSteps(std::string_view text, std::span<const NamedPipeline> named, Pipeline &pipeline) {
  if (trimmed(text).empty())
    return;
  for (std::string_view step : splitSteps(text)) {
    if (step.empty())
      userError(fmt::format("pass pipeline '{}' has an empty step", text));
    parseStep(step, named, pipeline);
  }
}

/// The position of the first run of a pass, or the pipeline's size.
size_t firstRun(const Pipeline &pipeline, std::string_view pass) {
  auto runs = [&](const PipelineStep &step) { return step.pass->name == pass; };
  return std::find_if(pipeline.begin(), pipeline.end(), runs) - pipeline.begin();
}

} // namespace

Pipeline parsePipeline(std::string_view text) {
  Pipeline pipeline;
  parseSteps(text, namedPipelines(), pipeline);
  checkOrder(pipeline);
  return pipeline;
}

void checkOrder(const Pipeline &pipeline) {
  for (const OrderRow &row : orderTable()) {
    const size_t before = firstRun(pipeline, row.before);
    if (before != pipeline.size() && firstRun(pipeline, row.after) < before)
      userError(fmt::format("pass '{}' must come before '{}': {}", row.before, row.after, row.why));
  }
}

std::string toString(const Pipeline &pipeline) {
  std::string text;
  for (const PipelineStep &step : pipeline) {
    text += (text.empty() ? "" : ",") + std::string(step.pass->name);
    std::string options;
    for (const auto &[name, value] : step.options)
      options += (options.empty() ? "" : ",") + name + "=" + value;
    if (!options.empty())
      text += "{" + options + "}";
  }
  return text;
}

} // namespace graphopt::passes
