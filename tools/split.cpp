// A separator is a line that starts with the mark; the line's rest is a remark.
#include "tools/split.h"

namespace graphopt::tools {

std::vector<std::string> splitText(std::string_view text) {
  std::vector<std::string> parts(1);
  size_t lines = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end == std::string_view::npos ? end : end + 1);
    text.remove_prefix(line.size());
    ++lines;
    if (line.starts_with(kSplitMark))
      parts.emplace_back(lines, '\n');
    else
      parts.back() += line;
  }
  return parts;
}

} // namespace graphopt::tools
