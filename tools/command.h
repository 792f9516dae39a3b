// What a command of the tool is: a row in commands.def and a function that declares its flags.
#pragma once
#include <CLI/CLI.hpp>

#include <functional>

namespace graphopt::tools {

/// Runs a command whose flags have been parsed; returns the exit status. Errors are thrown, not printed.
using Run = std::function<int()>;

#define COMMAND(function, name, help) Run function(CLI::App &app);
#include "tools/commands.def"
#undef COMMAND

} // namespace graphopt::tools
