// The command line that the corpus programs share: where the data is, and which part of it to run.
#pragma once
#include <CLI/CLI.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace graphopt::corpus {

/// A folder of data and the names in it that were asked for.
class Selection {
public:
  /// Declares DATA and --only; `what` the globs match.
  void add(CLI::App &app, const std::string &what);
  const std::filesystem::path &data() const { return data_; }
  bool wants(const std::string &name) const;
  /// The wanted names, in order: of the files in `folder` that end in `suffix`, without it.
  std::vector<std::string> namesIn(const std::filesystem::path &folder, const std::string &suffix) const;

private:
  std::filesystem::path data_;
  std::vector<std::string> only_; // globs; none: all
};

/// The status to leave main() with when there is nothing to run: 0 after --help, 2 after a mistake.
std::optional<int> parseArguments(CLI::App &app, int argc, char **argv);

} // namespace graphopt::corpus
