// Files as whole strings: texts are small, and a command that fails should leave no half-written output
// behind.
#include "tools/files.h"

#include <graphopt/error.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

namespace graphopt::tools {

std::string readText(const std::string &path) {
  if (path == "-")
    return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::error_code code;
  if (std::filesystem::is_directory(path, code))
    userError(fmt::format("cannot read '{}': it is a directory", path));
  std::ifstream in(path, std::ios::binary);
  if (!in)
    userError(fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad())
    userError(fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  return text;
}

void writeText(const std::string &path, std::string_view text) {
  if (path == "-") {
    if (!(std::cout << text << std::flush))
      userError("cannot write to standard output");
    return;
  }
  std::ofstream out(path, std::ios::binary);
  if (!out || !(out << text << std::flush))
    userError(fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
}

} // namespace graphopt::tools
