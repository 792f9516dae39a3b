// Quoting: which texts are plain tokens of the grammar, and the escapes of those that are not.
#include "ir/quote.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace graphopt::ir {

namespace {
bool isLower(char c) { return c >= 'a' && c <= 'z'; }
bool isUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isKeyChar(char c) { return isLower(c) || isUpper(c) || isDigit(c) || c == '_'; }
bool isNameChar(char c) { return isKeyChar(c) || c == '.'; }

bool isPlainName(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), isNameChar);
}

/// Colons stand between name characters only: cuda:0, mylib::foo.
bool hasPlainColons(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ':') {
      size_t after = i + 1 < text.size() && text[i + 1] == ':' ? i + 2 : i + 1;
      if (i == 0 || after >= text.size() || !isNameChar(text[after]))
        return false;
      i = after;
    } else if (!isNameChar(text[i])) {
      return false;
    }
  }
  return true;
}

bool isContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::string escaped(char c) { return fmt::format("\\x{:02x}", static_cast<unsigned char>(c)); }
} // namespace

size_t utf8Length(std::string_view text) {
  if (text.empty())
    return 0;
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned first = byte(0);
  if (first < 0x80)
    return 1;
  size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                  : (first & 0xF0) == 0xE0         ? 3
                  : first >= 0xF0 && first <= 0xF4 ? 4
                                                   : 0;
  if (length == 0 || text.size() < length)
    return 0;
  for (size_t i = 1; i < length; ++i)
    if (!isContinuation(text[i]))
      return 0;
  bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  bool surrogate = first == 0xED && byte(1) >= 0xA0;
  bool tooLarge = first == 0xF4 && byte(1) >= 0x90;
  return overlong || surrogate || tooLarge ? 0 : length;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    char c = text[i];
    size_t length = utf8Length(text.substr(i));
    bool repeated = (c == '[' || c == '{') && i > 0 && text[i - 1] == c;
    bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (length == 0 || control || repeated)
      out += escaped(c);
    else
      out += text.substr(i, length);
    i += std::max<size_t>(length, 1);
  }
  return out + '"';
}

std::string valueText(std::string_view name) {
  return "%" + (isPlainName(name) ? std::string(name) : quoted(name));
}

std::string graphText(std::string_view name) {
  return "@" + (isPlainName(name) ? std::string(name) : quoted(name));
}

std::string keyText(std::string_view name) { return isPlainKey(name) ? std::string(name) : quoted(name); }

std::string opNameText(std::string_view name) {
  bool hasNamespace = name.find('.') != name.npos || name.find("::") != name.npos;
  bool plain = hasNamespace && !isDigit(name[0]) && name[0] != '.' && hasPlainColons(name);
  return plain ? std::string(name) : quoted(name);
}

bool isPlainKey(std::string_view text) {
  return !text.empty() && !isDigit(text[0]) && std::all_of(text.begin(), text.end(), isKeyChar);
}

bool isSymName(std::string_view text) { return isPlainKey(text) && isUpper(text[0]); }

bool isPlainWord(std::string_view text) {
  // Words with a meaning of their own where a literal may stand.
  static constexpr std::array<std::string_view, 11> kReserved = {
      "true", "false", "none", "inf", "nan", "complex", "opaque", "word", "floordiv", "mod", "file"};
  if (text.empty() || !(isLower(text[0]) || text[0] == '_') || !hasPlainColons(text))
    return false;
  return std::none_of(text.begin(), text.end(), isUpper) &&
         std::find(kReserved.begin(), kReserved.end(), text) == kReserved.end();
}

} // namespace graphopt::ir
