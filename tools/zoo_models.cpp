// The one table of the tool that belongs to the process: commands are made before they know their MODEL.
#include "tools/zoo_models.h"

#include <graphopt/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

namespace graphopt::tools {
namespace {

constexpr std::string_view kPrefix = "zoo:";

std::span<const plugin::Descriptor> &zoo() {
  static std::span<const plugin::Descriptor> models;
  return models;
}

} // namespace

void setZoo(std::span<const plugin::Descriptor> models) { zoo() = models; }

std::string zooHelp() {
  std::string text = zoo().empty() ? "" : "Models that are built in:\n";
  for (const plugin::Descriptor &model : zoo())
    text += fmt::format("  {}{:<30}{}\n", kPrefix, model.name, model.help);
  return text;
}

bool isZooModel(const std::string &model) { return model.starts_with(kPrefix); }

const plugin::Descriptor &zooModel(const std::string &model) {
  std::vector<std::string> names;
  for (const plugin::Descriptor &row : zoo()) {
    names.push_back(fmt::format("{}{}", kPrefix, row.name));
    if (names.back() == model)
      return row;
  }
  userError(fmt::format("there is no model '{}': this graphopt has {}", model,
                        names.empty() ? "none built in" : fmt::format("{}", fmt::join(names, ", "))));
}

std::vector<std::string> zooInputs(const std::string &model) {
  std::istringstream texts(zooModel(model).inputs);
  std::vector<std::string> inputs;
  for (std::string text; texts >> text;)
    inputs.push_back(text);
  return inputs;
}

} // namespace graphopt::tools
