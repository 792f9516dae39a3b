// Texts and files about passes. The difference pairs lines that occur once on each side and keep their order,
// the way patience diff does: nearly every line of IR defines a name, so nearly every line is unique.
#include "passes/listing.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <graphopt/error.h>
#include <map>
#include <string_view>

namespace graphopt::passes {
namespace {

using Lines = std::vector<std::string_view>;
constexpr size_t kContext = 2; // equal lines shown around a difference

Lines splitLines(const std::string &text) {
  Lines lines;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    lines.push_back(std::string_view(text).substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

struct Pair {
  size_t before, after;
};

/// Lines that occur exactly once in both, in order of the first side.
std::vector<Pair> uniquePairs(const Lines &before, const Lines &after) {
  struct Seen {
    size_t countBefore = 0, countAfter = 0, indexAfter = 0;
  };
  std::map<std::string_view, Seen> seen;
  for (std::string_view line : before)
    ++seen[line].countBefore;
  for (size_t i = 0; i < after.size(); ++i) {
    ++seen[after[i]].countAfter;
    seen[after[i]].indexAfter = i;
  }
  std::vector<Pair> pairs;
  for (size_t i = 0; i < before.size(); ++i) {
    const Seen &line = seen[before[i]];
    if (line.countBefore == 1 && line.countAfter == 1)
      pairs.push_back({i, line.indexAfter});
  }
  return pairs;
}

/// The longest run of pairs that rises on both sides (patience sorting with back links).
std::vector<Pair> risingPairs(const std::vector<Pair> &pairs) {
  std::vector<size_t> ends, previous(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    auto lower = [&](size_t end, size_t value) { return pairs[end].after < value; };
    auto at = std::lower_bound(ends.begin(), ends.end(), pairs[i].after, lower);
    previous[i] = at == ends.begin() ? i : *std::prev(at);
    if (at == ends.end())
      ends.push_back(i);
    else
      *at = i;
  }
  std::vector<Pair> rising;
  for (size_t n = ends.size(), i = n ? ends.back() : 0; n > 0; --n, i = previous[i])
    rising.push_back(pairs[i]);
  std::reverse(rising.begin(), rising.end());
  return rising;
}

struct DiffLine {
  char mark;
  std::string_view text;
};

/// Every line of both sides, equal ones once. Around each pair equal neighbours are paired too.
std::vector<DiffLine> markedLines(const Lines &before, const Lines &after) {
  std::vector<DiffLine> lines;
  size_t b = 0, a = 0;
  auto advanceTo = [&](size_t endBefore, size_t endAfter) {
    while (b < endBefore && a < endAfter && before[b] == after[a]) {
      lines.push_back({' ', before[b++]});
      ++a;
    }
    size_t tail = 0;
    while (endBefore - tail > b && endAfter - tail > a &&
           before[endBefore - tail - 1] == after[endAfter - tail - 1])
      ++tail;
    for (; b < endBefore - tail; ++b)
      lines.push_back({'-', before[b]});
    for (; a < endAfter - tail; ++a)
      lines.push_back({'+', after[a]});
    for (; b < endBefore; ++b, ++a)
      lines.push_back({' ', before[b]});
  };
  for (const Pair &pair : risingPairs(uniquePairs(before, after)))
    advanceTo(pair.before, pair.after);
  advanceTo(before.size(), after.size());
  return lines;
}

std::string fileNamePart(std::string_view text) {
  std::string name(text);
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_')
      c = '_';
  return name;
}

std::string commented(const std::string &text) {
  std::string out;
  for (std::string_view line : splitLines(text))
    out += fmt::format("// {}\n", line);
  return out;
}

} // namespace

std::string heading(const PassReport &report) {
  if (report.skipped)
    return fmt::format("// after {}: skipped, {} ops\n", report.name, report.opsAfter);
  return fmt::format("// after {}: {:.1f} ms, {} -> {} ops\n", report.name, report.milliseconds,
                     report.opsBefore, report.opsAfter);
}

std::string diffLines(const std::string &before, const std::string &after) {
  const std::vector<DiffLine> lines = markedLines(splitLines(before), splitLines(after));
  std::vector<bool> shown(lines.size(), false);
  bool differs = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].mark == ' ')
      continue;
    differs = true;
    const size_t end = std::min(lines.size(), i + kContext + 1);
    for (size_t near = i < kContext ? 0 : i - kContext; near < end; ++near)
      shown[near] = true;
  }
  if (!differs)
    return "";
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (shown[i])
      text += fmt::format("{}{}\n", lines[i].mark, lines[i].text);
    else if (i == 0 || shown[i - 1])
      text += "  ...\n";
  }
  return text;
}

void writeFile(const std::string &path, const std::string &text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file)
    userError(fmt::format("cannot write '{}': check that the folder exists and may be written", path));
}

void dumpFile(const std::string &dir, const std::string &graph, size_t number, const std::string &pass,
              const std::string &text) {
  std::error_code failure;
  std::filesystem::create_directories(dir, failure);
  if (failure)
    userError(fmt::format("cannot make the dump folder '{}': {}", dir, failure.message()));
  const std::string name = fmt::format("{}.{:02}.{}.gir", fileNamePart(graph), number, fileNamePart(pass));
  writeFile((std::filesystem::path(dir) / name).string(), text);
}

std::string reproducerText(const PipelineStep &step, const ManagerOptions &options,
                           const std::string &failure, const std::string &graphText) {
  std::string flags;
  if (!options.eagerNumerics)
    flags += " --numerics=free";
  if (!options.catalog)
    flags += " --no-catalog";
  if (options.verifyRoundtrip)
    flags += " --verify-roundtrip";
  return fmt::format("// RUN: graphopt opt %s --pass-pipeline='{}'{}\n{}{}", toString(Pipeline{step}), flags,
                     commented(failure), graphText);
}

} // namespace graphopt::passes
