// Rendering of diagnostics. The guilty line comes from a text that may be anything, so it is cut to a window
// around the caret and cleaned of bytes that a terminal would act on.
#include "ir/diag.h"
#include "ir/quote.h"

#include <algorithm>
#include <fmt/format.h>

namespace graphopt::ir {

namespace {
constexpr size_t kContextBefore = 100; // bytes of the line shown before the caret
constexpr size_t kContextAfter = 100;

std::string_view lineOf(std::string_view source, int line) {
  size_t begin = 0;
  for (int i = 1; i < line; ++i) {
    begin = source.find('\n', begin);
    if (begin == source.npos)
      return {};
    ++begin;
  }
  std::string_view text = source.substr(begin, source.substr(begin).find('\n'));
  return text.ends_with('\r') ? text.substr(0, text.size() - 1) : text;
}

/// What a terminal can show, and how many columns the first `bytes` bytes of `text` take.
struct Shown {
  std::string text;
  size_t columns = 0;
};

Shown show(std::string_view text, size_t bytes) {
  Shown shown;
  for (size_t i = 0; i < text.size();) {
    size_t length = utf8Length(text.substr(i));
    bool control = static_cast<unsigned char>(text[i]) < 0x20 || text[i] == 0x7F;
    if (text[i] == '\t')
      shown.text += ' ';
    else if (length == 0 || control)
      shown.text += '?';
    else
      shown.text += text.substr(i, length);
    if (i < bytes)
      ++shown.columns;
    i += std::max<size_t>(length, 1);
  }
  return shown;
}

/// The guilty line and a line with the caret under it; nothing when the source has no such place.
std::string caretLines(std::string_view source, Loc loc) {
  std::string_view line = lineOf(source, loc.line);
  size_t caret = static_cast<size_t>(std::max(loc.column, 1)) - 1;
  if (line.empty() || caret > line.size())
    return {};
  size_t begin = caret > kContextBefore ? caret - kContextBefore : 0;
  std::string_view window = line.substr(begin, caret - begin + kContextAfter);
  size_t marked =
      std::min<size_t>(std::max(loc.length, 1), std::max<size_t>(window.size() - (caret - begin), 1));
  Shown before = show(window, caret - begin);
  size_t columns = std::max<size_t>(show(window.substr(caret - begin, marked), marked).columns, 1);
  std::string_view cutLeft = begin > 0 ? "..." : "";
  std::string_view cutRight = begin + window.size() < line.size() ? "..." : "";
  return fmt::format("{}{}{}\n{}^{}\n", cutLeft, before.text, cutRight,
                     std::string(cutLeft.size() + before.columns, ' '), std::string(columns - 1, '~'));
}

std::string placeText(const std::string &file, Loc loc) {
  if (loc.line == 0)
    return file.empty() ? "" : file + ": ";
  return fmt::format("{}{}:{}: ", file.empty() ? "" : file + ":", loc.line, loc.column);
}
} // namespace

Diagnostics::Diagnostics(std::string file, std::string source)
    : file_(std::move(file)), source_(std::move(source)) {}

Diagnostic &Diagnostics::error(Loc loc, std::string message) {
  all_.push_back({Severity::Error, loc, std::move(message), {}});
  return all_.back();
}

Diagnostic &Diagnostics::warning(Loc loc, std::string message) {
  all_.push_back({Severity::Warning, loc, std::move(message), {}});
  return all_.back();
}

bool Diagnostics::hasErrors() const {
  return std::any_of(all_.begin(), all_.end(),
                     [](const Diagnostic &d) { return d.severity == Severity::Error; });
}

std::string Diagnostics::render() const {
  std::string out;
  for (const Diagnostic &diagnostic : all_)
    out += render(diagnostic);
  return out;
}

std::string Diagnostics::render(const Diagnostic &diagnostic) const {
  std::string_view severity = diagnostic.severity == Severity::Error ? "error" : "warning";
  std::string out = fmt::format("{}{}: {}\n", placeText(file_, diagnostic.loc), severity, diagnostic.message);
  out += caretLines(source_, diagnostic.loc);
  for (const Note &note : diagnostic.notes)
    out += fmt::format("{}note: {}\n", placeText(file_, note.loc), note.message);
  return out;
}

} // namespace graphopt::ir
