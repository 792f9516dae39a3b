// Channels are bits of one word that is read from the environment on first use. A program that breaks its
// graph at each of a million calls is not to drown in that: each channel says so much in a while, and counts
// the rest.
#include "driver/log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
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

/// What a channel has said lately.
class Limiter {
public:
  /// Lines to say before the message; nothing: the message is left out.
  std::optional<std::string> admit() {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = Clock::now();
    std::string before;
    if (now - begin_ > kWindow) {
      if (left_ > 0)
        before = fmt::format("({} messages were left out)", left_);
      begin_ = now;
      said_ = left_ = 0;
    }
    if (said_ < kMost) {
      if (++said_ == kMost)
        before += "(messages after this one are counted for a while, not said)";
      return before;
    }
    ++left_;
    return std::nullopt;
  }

private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kWindow{10};
  static constexpr int kMost = 200;
  std::mutex mutex_;
  Clock::time_point begin_;
  int said_ = 0;
  uint64_t left_ = 0;
};
std::array<Limiter, kNames.size()> limiters;

/// Each line of the text behind the channel's name.
std::string linesOf(Channel channel, std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines += fmt::format("[graphopt:{}] {}\n", kNames[static_cast<size_t>(channel)], text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

} // namespace

bool logs(Channel channel) { return enabled() >> static_cast<unsigned>(channel) & 1; }

void log(Channel channel, std::string_view text) {
  if (!logs(channel))
    return;
  const std::optional<std::string> before = limiters[static_cast<size_t>(channel)].admit();
  if (!before)
    return;
  const std::string lines = linesOf(channel, *before) + linesOf(channel, text);
  std::fputs(lines.c_str(), stderr); // one write: lines of threads do not mix
}

} // namespace graphopt::driver
