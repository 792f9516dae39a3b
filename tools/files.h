// Reading and writing whole files, with "-" for standard input and output, and errors that name the file.
#pragma once
#include <string>
#include <string_view>

namespace graphopt::tools {

/// The bytes of a file or, for "-", of standard input. Throws a user error that says why it cannot be read.
std::string readText(const std::string &path);
/// Writes a whole file, or standard output for "-". Throws a user error that says why it cannot.
void writeText(const std::string &path, std::string_view text);

} // namespace graphopt::tools
