// Reads rule texts: a small recursive-descent parser over the language of rewrite.h.
#include "passes/rewrite.h"

#include <cctype>
#include <charconv>
#include <graphopt/error.h>

namespace graphopt::passes {
namespace {

class PatternParser {
public:
  explicit PatternParser(std::string_view text) : text_(text) {}

  Pattern whole() {
    Pattern pattern = node();
    GO_ASSERT(skipSpace() == text_.size(), complaint("the end"));
    return pattern;
  }

private:
  Pattern node() {
    Pattern pattern;
    if (accept('%')) {
      pattern.kind = Pattern::Kind::Var;
      pattern.name = word();
      if (accept('['))
        pattern.dims = letters();
      return pattern;
    }
    pattern.name = word();
    if (pattern.name == "none")
      return pattern;
    pattern.kind = Pattern::Kind::Call;
    expect('(');
    while (!accept(')')) {
      pattern.args.push_back(node());
      accept(',');
    }
    if (accept('{'))
      while (!accept('}')) {
        pattern.attrs.push_back(attr());
        accept(',');
      }
    return pattern;
  }

  std::vector<std::string> letters() {
    std::vector<std::string> names;
    while (!accept(']')) {
      names.push_back(word());
      accept(',');
    }
    return names;
  }

  PatternAttr attr() {
    PatternAttr attr;
    attr.name = word();
    attr.optional = accept('?');
    expect('=');
    if (accept('$')) {
      attr.binding = word();
      return attr;
    }
    do
      attr.values.push_back(literal());
    while (accept('|'));
    return attr;
  }

  ir::Attr literal() {
    const bool isNegative = accept('-');
    const std::string text = (isNegative ? "-" : "") + word();
    if (text == "true" || text == "false")
      return ir::Attr::boolean(text == "true");
    const char *end = text.data() + text.size();
    int64_t integer = 0;
    if (std::from_chars(text.data(), end, integer).ptr == end)
      return ir::Attr::integer(integer);
    double real = 0;
    if (std::from_chars(text.data(), end, real).ptr == end)
      return ir::Attr::real(real);
    return ir::Attr::word(text);
  }

  std::string word() {
    const size_t start = skipSpace();
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' ||
                                  text_[at_] == '.' || text_[at_] == ':'))
      ++at_;
    GO_ASSERT(at_ > start, complaint("a word"));
    return std::string(text_.substr(start, at_ - start));
  }

  size_t skipSpace() {
    while (at_ < text_.size() && text_[at_] == ' ')
      ++at_;
    return at_;
  }

  bool accept(char c) {
    if (skipSpace() == text_.size() || text_[at_] != c)
      return false;
    ++at_;
    return true;
  }

  void expect(char c) { GO_ASSERT(accept(c), complaint(std::string(1, c))); }

  std::string complaint(const std::string &wanted) const {
    return "rule text wants " + wanted + " at: " + std::string(text_.substr(std::min(at_, text_.size())));
  }

  std::string_view text_;
  size_t at_ = 0;
};

} // namespace

Pattern parsePattern(std::string_view text) { return PatternParser(text).whole(); }

const std::vector<Rewrite> &rewriteTable() {
  using enum Rounding;
  static const std::vector<Rewrite> table = {
#define REWRITE(name, rounding, pattern, replacement, equation)                                              \
  {name, rounding, parsePattern(pattern), parsePattern(replacement), equation},
#include "passes/rules/rewrites.def"
#undef REWRITE
  };
  return table;
}

} // namespace graphopt::passes
