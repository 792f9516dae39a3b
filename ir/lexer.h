// Splits .gir text into tokens, on demand and in one pass over the bytes. Any bytes are safe: what is no
// token comes out as one Token::Kind::Error that says why.
#pragma once
#include "ir/graph.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace graphopt::ir {

struct Token {
  enum class Kind {
    End,       // of the text
    Error,     // `value` says what is wrong
    Ident,     // aten.add.Tensor, graph, f32, cuda:0, mylib::foo, B
    ValueName, // %x or %"odd"; `value` is the name
    GraphName, // @net or @"odd"; `value` is the name
    Int,       // -3; `integer`
    Float,     // 1e-05, -inf; `real`
    String,    // "text"; `value` is the text without escapes
    Punct      // { } ( ) [ ] , : = # + * & ~ <- == != <= < >= >
  };
  Kind kind = Kind::End;
  std::string_view text; // as written
  std::string value;
  int64_t integer = 0;
  double real = 0;
  Loc loc;

  bool is(std::string_view punct) const { return kind == Kind::Punct && text == punct; }
  bool isWord(std::string_view word) const { return kind == Kind::Ident && text == word; }
};

class Lexer {
public:
  /// The text must outlive the lexer and its tokens.
  explicit Lexer(std::string_view source) : source_(source) {}
  Token next();

private:
  std::string_view rest() const { return source_.substr(at_); }
  bool atEnd() const { return at_ >= source_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  void skipSpace();
  void identifier(Token &token);
  void number(Token &token);
  void name(Token &token, Token::Kind kind);
  void string(Token &token);
  void escape(Token &token);
  void punct(Token &token);
  void fail(Token &token, std::string message); // the first complaint about a token is kept

  std::string_view source_;
  size_t at_ = 0;
  size_t lineBegin_ = 0;
  int line_ = 1;
};

} // namespace graphopt::ir
