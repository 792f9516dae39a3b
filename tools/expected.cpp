// Remarks are found line by line in the source, then struck off against what was collected.
#include "tools/expected.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <vector>

namespace graphopt::tools {
namespace {

enum class Kind { Error, Warning, Note };
constexpr std::string_view kNames[] = {"error", "warning", "note"};
constexpr int kUnknownLine = 0; // Loc's nowhere

struct Remark {
  Kind kind;
  int line = 0;    // the diagnostic's
  int ownLine = 0; // the remark's
  std::string_view words;
  bool met = false;
};

struct Scanner {
  std::string_view rest;
  std::string complaints;
  const std::string &file;
  int line = 1;

  bool take(std::string_view word) {
    if (!rest.starts_with(word))
      return false;
    rest.remove_prefix(word.size());
    return true;
  }
  void skipSpaces() {
    while (rest.starts_with(' '))
      rest.remove_prefix(1);
  }
  std::optional<int> number() {
    int value = 0;
    const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (code != std::errc())
      return std::nullopt;
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    return value;
  }
};

/// The line after '@', relative to the remark's; nothing when the text is no place.
std::optional<int> scanPlace(Scanner &scanner) {
  if (!scanner.take("@"))
    return scanner.line;
  if (scanner.take("unknown"))
    return kUnknownLine;
  const bool down = scanner.take("+"), up = !down && scanner.take("-");
  const std::optional<int> value = scanner.number();
  if (!value)
    return std::nullopt;
  return down ? scanner.line + *value : up ? scanner.line - *value : *value;
}

std::optional<Kind> scanKind(Scanner &scanner) {
  for (const Kind kind : {Kind::Error, Kind::Warning, Kind::Note})
    if (scanner.take(kNames[static_cast<size_t>(kind)]))
      return kind;
  return std::nullopt;
}

/// The remarks of one line; a malformed one is a complaint, since it would check nothing.
void scanLine(Scanner &scanner, std::vector<Remark> &remarks) {
  constexpr std::string_view kMark = "expected-";
  const size_t comment = scanner.rest.find("//");
  scanner.rest.remove_prefix(comment == std::string_view::npos ? scanner.rest.size() : comment);
  for (size_t at; (at = scanner.rest.find(kMark)) != std::string_view::npos;) {
    scanner.rest.remove_prefix(at + kMark.size());
    const std::optional<Kind> kind = scanKind(scanner);
    if (!kind)
      continue; // prose
    scanner.skipSpaces();
    const std::optional<int> place = scanPlace(scanner);
    scanner.skipSpaces();
    const bool open = scanner.take("{{");
    const size_t close = scanner.rest.find("}}");
    if (!place || !open || close == std::string_view::npos) {
      scanner.complaints +=
          fmt::format("{}:{}: error: malformed remark, expected 'expected-{} @+N {{{{words}}}}'\n",
                      scanner.file, scanner.line, kNames[static_cast<size_t>(*kind)]);
      return;
    }
    remarks.push_back({*kind, *place, scanner.line, scanner.rest.substr(0, close)});
    scanner.rest.remove_prefix(close + 2);
  }
}

/// Strikes off the first open remark that fits; false when there is none.
bool strikeOff(std::vector<Remark> &remarks, Kind kind, int line, std::string_view message) {
  for (Remark &remark : remarks)
    if (!remark.met && remark.kind == kind && remark.line == line &&
        message.find(remark.words) != std::string_view::npos)
      return remark.met = true;
  return false;
}

} // namespace

std::string checkExpected(const ir::Diagnostics &diagnostics) {
  std::vector<Remark> remarks;
  Scanner scanner{{}, "", diagnostics.file()};
  std::string_view source = diagnostics.source();
  for (; !source.empty(); ++scanner.line) {
    const size_t end = source.find('\n');
    scanner.rest = source.substr(0, end);
    scanLine(scanner, remarks);
    source.remove_prefix(end == std::string_view::npos ? source.size() : end + 1);
  }
  std::string complaints = std::move(scanner.complaints);
  for (const ir::Diagnostic &diagnostic : diagnostics.all()) {
    const Kind kind = diagnostic.severity == ir::Severity::Error ? Kind::Error : Kind::Warning;
    if (!strikeOff(remarks, kind, diagnostic.loc.line, diagnostic.message))
      complaints += fmt::format("unexpected {}:\n{}", kNames[static_cast<size_t>(kind)],
                                diagnostics.render(diagnostic));
    for (const ir::Note &note : diagnostic.notes)
      strikeOff(remarks, Kind::Note, note.loc.line, note.message);
  }
  for (const Remark &remark : remarks)
    if (!remark.met)
      complaints +=
          fmt::format("{}:{}: error: expected {} '{}' on line {} did not come\n", diagnostics.file(),
                      remark.ownLine, kNames[static_cast<size_t>(remark.kind)], remark.words, remark.line);
  return complaints;
}

} // namespace graphopt::tools
