// `// -----` lines cut one file into independent texts (--split-input-file).
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace graphopt::tools {

inline constexpr std::string_view kSplitMark = "// -----";

/// The parts of the text, separators left out. Each part is preceded by as many empty lines as the file has
/// lines before it, so that diagnostics name the lines of the file. One part when there is no separator.
std::vector<std::string> splitText(std::string_view text);

} // namespace graphopt::tools
