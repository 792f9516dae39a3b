// Status 2 tells a wrong call from a failed case, which is 1.
#include "arguments.h"

#include <algorithm>
#include <fnmatch.h>

namespace graphopt::corpus {

void Selection::add(CLI::App &app, const std::string &what) {
  app.add_option("DATA", data_, "the folder that scripts/corpus wrote")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--only", only_, "run only " + what + " that match")->type_name("GLOB ...");
}

bool Selection::wants(const std::string &name) const {
  auto matches = [&](const std::string &glob) { return fnmatch(glob.c_str(), name.c_str(), 0) == 0; };
  return only_.empty() || std::any_of(only_.begin(), only_.end(), matches);
}

std::vector<std::string> Selection::namesIn(const std::filesystem::path &folder,
                                            const std::string &suffix) const {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(folder)) {
    std::string file = entry.path().filename().string();
    if (!file.ends_with(suffix))
      continue;
    file.resize(file.size() - suffix.size());
    if (wants(file))
      names.push_back(file);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<int> parseArguments(CLI::App &app, int argc, char **argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

} // namespace graphopt::corpus
