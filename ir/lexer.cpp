// The lexer: characters to tokens. Every branch takes at least one byte, so any text ends.
#include "ir/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>

namespace graphopt::ir {

namespace {
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isIdentStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool isNameChar(char c) { return isIdentStart(c) || isDigit(c) || c == '.'; }

std::string byteText(char c) {
  bool printable = c > 0x20 && c < 0x7F;
  return printable ? fmt::format("'{}'", c) : fmt::format("byte 0x{:02x}", static_cast<unsigned char>(c));
}

int hexDigit(char c) {
  if (isDigit(c))
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}
} // namespace

void Lexer::fail(Token &token, std::string message) {
  if (token.kind == Token::Kind::Error)
    return;
  token.kind = Token::Kind::Error;
  token.value = std::move(message);
}

void Lexer::skipSpace() {
  while (!atEnd()) {
    char c = peek();
    if (c == '\n') {
      lineBegin_ = ++at_;
      ++line_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '/' && peek(1) == '/') {
      at_ = std::min(source_.find('\n', at_), source_.size());
    } else {
      return;
    }
  }
}

Token Lexer::next() {
  skipSpace();
  Token token;
  size_t begin = at_;
  token.loc = {line_, static_cast<int>(std::min<size_t>(begin - lineBegin_, 1 << 30)) + 1, 1};
  if (atEnd())
    return token;
  char c = peek();
  if (isIdentStart(c))
    identifier(token);
  else if (isDigit(c) || c == '-')
    number(token);
  else if (c == '%')
    name(token, Token::Kind::ValueName);
  else if (c == '@')
    name(token, Token::Kind::GraphName);
  else if (c == '"')
    string(token);
  else
    punct(token);
  token.text = source_.substr(begin, at_ - begin);
  token.loc.length = static_cast<int>(std::min<size_t>(at_ - begin, 1 << 30));
  return token;
}

/// Letters, digits, '_' and '.', with ':' or '::' between: cuda:0, mylib::foo.overload.
void Lexer::identifier(Token &token) {
  token.kind = Token::Kind::Ident;
  while (isNameChar(peek())) {
    ++at_;
    if (peek() != ':')
      continue;
    size_t colons = peek(1) == ':' ? 2 : 1;
    if (isNameChar(peek(colons)))
      at_ += colons;
  }
}

void Lexer::number(Token &token) {
  size_t begin = at_;
  bool negative = peek() == '-';
  at_ += negative;
  if (negative && rest().starts_with("inf") && !isNameChar(peek(3))) {
    at_ += 3;
    token.kind = Token::Kind::Float;
    token.real = -std::numeric_limits<double>::infinity();
    return;
  }
  auto digits = [&] {
    while (isDigit(peek()))
      ++at_;
  };
  digits();
  bool isFloat = peek() == '.';
  at_ += isFloat;
  digits();
  if (peek() == 'e' || peek() == 'E') {
    isFloat = true;
    at_ += peek(1) == '-' || peek(1) == '+' ? 2 : 1;
    digits();
  }
  while (isNameChar(peek())) // 3abc is one wrong number, not a number and a word
    ++at_;
  std::string_view text = source_.substr(begin, at_ - begin);
  token.kind = isFloat ? Token::Kind::Float : Token::Kind::Int;
  const char *last = text.data() + text.size();
  auto [end, error] = isFloat ? std::from_chars(text.data(), last, token.real)
                              : std::from_chars(text.data(), last, token.integer);
  if (error == std::errc::result_out_of_range)
    fail(token, isFloat ? "a number leaves the range of f64" : "an integer leaves 64 bits");
  else if (error != std::errc() || end != last)
    fail(token, "not a number");
}

void Lexer::name(Token &token, Token::Kind kind) {
  token.kind = kind;
  char sigil = peek();
  ++at_;
  if (peek() == '"')
    return string(token);
  size_t begin = at_;
  while (isNameChar(peek()))
    ++at_;
  token.value = source_.substr(begin, at_ - begin);
  if (token.value.empty())
    fail(token, fmt::format("expected a name after '{}'; names with other characters are quoted", sigil));
}

/// Fills `value`; the kind is String unless the caller has set another one (a quoted name).
void Lexer::string(Token &token) {
  if (token.kind == Token::Kind::End)
    token.kind = Token::Kind::String;
  ++at_;
  while (!atEnd() && peek() != '"' && peek() != '\n') {
    if (peek() == '\\')
      escape(token);
    else if (token.kind != Token::Kind::Error)
      token.value += source_[at_++];
    else
      ++at_;
  }
  if (peek() != '"' || atEnd())
    return fail(token, "a quoted text does not end on its line");
  ++at_;
}

void Lexer::escape(Token &token) {
  static constexpr std::array<std::pair<char, char>, 5> kEscapes = {
      {{'"', '"'}, {'\\', '\\'}, {'n', '\n'}, {'r', '\r'}, {'t', '\t'}}};
  char c = peek(1);
  auto known = std::find_if(kEscapes.begin(), kEscapes.end(), [&](auto e) { return e.first == c; });
  int high = hexDigit(peek(2)), low = hexDigit(peek(3));
  bool isHex = c == 'x' && high >= 0 && low >= 0;
  at_ += isHex ? 4 : known != kEscapes.end() ? 2 : 1;
  if (!isHex && known == kEscapes.end())
    return fail(token, "unknown escape in a quoted text; known are \\\" \\\\ \\n \\r \\t and \\xHH");
  if (token.kind != Token::Kind::Error)
    token.value += isHex ? static_cast<char>(high * 16 + low) : known->second;
}

void Lexer::punct(Token &token) {
  static constexpr std::array<std::string_view, 21> kPuncts = {"<-", "==", "!=", "<=", ">=", "<", ">",
                                                               "{",  "}",  "(",  ")",  "[",  "]", ",",
                                                               ":",  "=",  "#",  "+",  "*",  "&", "~"};
  token.kind = Token::Kind::Punct;
  for (std::string_view punct : kPuncts) {
    if (rest().starts_with(punct)) {
      at_ += punct.size();
      return;
    }
  }
  fail(token, "unexpected " + byteText(peek()));
  ++at_;
}

} // namespace graphopt::ir
