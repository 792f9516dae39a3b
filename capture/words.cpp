// Strings among arguments: few and short, so each gets a number once.
#include "capture/words.h"

#include <map>
#include <mutex>
#include <string>

namespace graphopt::capture {

Word internedString(std::string_view text) {
  static std::mutex mutex;
  static auto &numbers = *new std::map<std::string, Word, std::less<>>;
  std::lock_guard lock(mutex);
  auto it = numbers.find(text);
  if (it == numbers.end())
    it = numbers.emplace(text, numbers.size() + 1).first;
  return it->second;
}

} // namespace graphopt::capture
