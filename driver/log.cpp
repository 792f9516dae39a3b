// Channels are bits of one word that is read from the environment on first use.
#include "driver/log.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace graphopt::driver {
namespace {

constexpr std::array kNames = {
#define CHANNEL(name, help) std::string_view(#name),
#include "driver/log.def"
#undef CHANNEL
};

unsigned bitsOf(std::string_view word) {
  if (word == "all")
    return (1u << kNames.size()) - 1;
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == word)
      return 1u << i;
  if (!word.empty())
    fmt::print(stderr, "graphopt: warning: GRAPHOPT_LOG has no channel '{}', it knows {}\n", word,
               fmt::join(kNames, ", "));
  return 0;
}

unsigned enabled() {
  static const unsigned bits = [] {
    const char *variable = std::getenv("GRAPHOPT_LOG");
    std::string_view rest = variable ? variable : "";
    unsigned result = 0;
    while (!rest.empty()) {
      const size_t comma = rest.find(',');
      result |= bitsOf(rest.substr(0, comma));
      rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    }
    return result;
  }();
  return bits;
}

} // namespace

bool logs(Channel channel) { return enabled() >> static_cast<unsigned>(channel) & 1; }

void log(Channel channel, std::string_view text) {
  if (!logs(channel))
    return;
  std::string lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines += fmt::format("[graphopt:{}] {}\n", kNames[static_cast<size_t>(channel)], text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  std::fputs(lines.c_str(), stderr); // one write: lines of threads do not mix
}

} // namespace graphopt::driver
