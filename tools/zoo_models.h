// MODEL zoo:NAME: programs that the process's main brought along, as plugins of its own.
#pragma once
#include <graphopt/plugin.h>

#include <span>
#include <string>
#include <vector>

namespace graphopt::tools {

/// What main brought along. Said once, before any command.
void setZoo(std::span<const plugin::Descriptor> zoo);
/// Names and help, a line each, for --help; empty when there are none.
std::string zooHelp();

bool isZooModel(const std::string &model);
/// Throws a user error that lists the names when there is none of this one.
const plugin::Descriptor &zooModel(const std::string &model);
/// The texts of --input that stand for no --input.
std::vector<std::string> zooInputs(const std::string &model);

} // namespace graphopt::tools
