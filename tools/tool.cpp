// toolMain: picks the command, parses its flags, and turns every failure into one error on standard error and
// exit status 1. Commands throw; only this file prints errors and decides the status.
#include <graphopt/tool.h>

#include "tools/command.h"
#include "tools/zoo_models.h"

#include <graphopt/error.h>

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iostream>
#include <map>
#include <sstream>

namespace graphopt {
namespace {

int fail(const std::string &text) {
  std::cout.flush();
  fmt::print(stderr, "graphopt: error: {}\n", text);
  return 1;
}

std::string firstLine(const std::string &text) { return text.substr(0, text.find('\n')); }

/// Whether a line is how TorchScript ends its backtrace: "RuntimeError: what the operator said".
bool saysException(std::string_view line) {
  const auto partOfName = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.'; };
  const size_t colon = line.find(": ");
  return colon != 0 && colon != line.npos && std::all_of(line.begin(), line.begin() + colon, partOfName);
}

/// LibTorch's errors carry a C++ backtrace after the first line. TorchScript's have a Python one before what
/// the operator said, which may be long itself (all backends of an operator); users want its first line. The
/// backtrace quotes the program, which may look like anything, up to a few lines after its last arrow.
std::string whatFailed(const std::string &text) {
  if (!firstLine(text).ends_with("failed in the TorchScript interpreter."))
    return firstLine(text);
  constexpr std::string_view kPlain = "RuntimeError: ";
  const size_t arrow = text.rfind("<--- HERE");
  std::istringstream lines(text.substr(arrow == text.npos ? 0 : arrow));
  for (std::string line; std::getline(lines, line);)
    if (saysException(line))
      return line.starts_with(kPlain) ? line.substr(kPlain.size()) : line;
  return firstLine(text);
}

/// CLI11 wants to exit; help and version go to standard output with status 0, all else is a user's mistake.
int parseFailed(const CLI::App &app, const CLI::ParseError &error) {
  if (error.get_exit_code() == 0) {
    app.exit(error, std::cout, std::cerr);
    return 0;
  }
  std::string command = app.get_subcommands().empty() ? "" : " " + app.get_subcommands().front()->get_name();
  return fail(fmt::format("{} (see graphopt{} --help)", firstLine(error.what()), command));
}

std::map<const CLI::App *, tools::Run> addCommands(CLI::App &app) {
  std::map<const CLI::App *, tools::Run> runs;
#define COMMAND(function, name, help)                                                                        \
  {                                                                                                          \
    CLI::App *command = app.add_subcommand(name, help);                                                      \
    runs[command] = tools::function(*command);                                                               \
  }
#include "tools/commands.def"
#undef COMMAND
  return runs;
}

int runTool(int argc, char **argv) {
  CLI::App app("graphopt: capture, optimise and run LibTorch programs");
  app.name("graphopt");
  app.set_version_flag("--version", GRAPHOPT_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(36);
  const auto runs = addCommands(app);
  app.footer(tools::zooHelp()); // after the commands, which would show it too
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return parseFailed(app, error);
  }
  return runs.at(app.get_subcommands().front())();
}

} // namespace

int toolMain(int argc, char **argv, std::span<const plugin::Descriptor> zoo) {
  tools::setZoo(zoo);
  try {
    return runTool(argc, argv);
  } catch (const Error &error) {
    return fail(error.what());
  } catch (const c10::Error &error) {
    return fail(whatFailed(error.what_without_backtrace()));
  } catch (const std::bad_alloc &) {
    return fail("out of memory");
  } catch (const std::exception &error) {
    return fail(whatFailed(error.what()));
  }
}

} // namespace graphopt
