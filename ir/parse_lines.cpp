// The lines of a graph that are no operations: syms, declarations, guards, state lines.
#include "ir/parser.h"
#include "ir/quote.h"

#include <algorithm>
#include <fmt/format.h>

namespace graphopt::ir {

void Parser::symLine() {
  take();
  Loc loc = token_.loc;
  std::string name(token_.text);
  if (token_.kind != Token::Kind::Ident || !isSymName(name))
    return unexpected("a sym, which starts with a capital letter");
  take();
  auto bound = [&](int64_t infinite, std::string_view word) {
    bool isInf = atWord(word) || (token_.kind == Token::Kind::Float && token_.text == word);
    return isInf ? (take(), infinite) : expectInt("an integer or inf");
  };
  if (!atWord("in"))
    return unexpected("'in' and the sym's range");
  take();
  expect("[", "to begin the range");
  Sym sym{name, {}};
  sym.range.lo = bound(DimRange::kNegInf, "-inf");
  expect(",", "between the bounds");
  sym.range.hi = bound(DimRange::kInf, "inf");
  expect("]", "to end the range");
  if (!failed_ &&
      (sym.range.lo > sym.range.hi || sym.range.lo == DimRange::kInf || sym.range.hi == DimRange::kNegInf))
    error(loc, fmt::format("the range of '{}' is empty", name));
  auto [known, isNew] = syms_.try_emplace(name, loc);
  if (!isNew)
    return error(loc, fmt::format("'{}' is declared twice", name),
                 {{known->second, fmt::format("'{}' is declared here", name)}});
  graph_->syms.push_back(std::move(sym)); // a wrong range is reported, its uses need no message
}

void Parser::declaration(Value::Kind kind) {
  take();
  Loc loc = token_.loc;
  std::string name = expectName(Token::Kind::ValueName, "a value, as %x");
  expect(":", "and the type");
  Type declared = type();
  Attr content;
  std::string hash;
  if (kind == Value::Kind::HostVal || kind == Value::Kind::Const) {
    expect("=", "and the content");
    if (atWord("file")) {
      take();
      hash = expectName(Token::Kind::String, "the hash that names the file, quoted");
    } else {
      content = literal();
    }
  }
  if (failed_) {
    broken_.insert(name);
    return;
  }
  if (!define(name, loc))
    return;
  pending_.erase(name);
  Value *value = graph_->declare(kind, name, std::move(declared));
  value->loc = loc;
  value->content = std::move(content);
  value->contentHash = std::move(hash);
}

void Parser::guardLine() {
  take();
  Guard guard;
  guard.loc = token_.loc;
  expect("#", "and the guard's number");
  guard.number = number("the guard's number");
  guard.kind = expectKey("the guard's kind, as meta");
  if (accept("("))
    guard.operands = operandList(")", "to end the operands");
  for (const Operand &operand : guard.operands)
    if (operand.isValue() && operand.value && operand.value->isResult())
      return error(operand.loc, "a guard is checked before the graph runs: it can name declared values only",
                   {declaredHere(*operand.value)});
  using enum Guard::Cmp;
  constexpr Guard::Cmp kAll[] = {Eq, Ne, Le, Lt, Ge, Gt, In};
  auto cmp = std::find_if(std::begin(kAll), std::end(kAll),
                          [&](Guard::Cmp c) { return token_.text == toString(c); });
  if (cmp == std::end(kAll))
    return unexpected("a comparison, as ==");
  take();
  guard.cmp = *cmp;
  if (token_.kind == Token::Kind::Ident && ahead_.is("["))
    guard.expected = type();
  else
    guard.expected = literal();
  if (!failed_)
    graph_->guards.push_back(std::move(guard));
}

void Parser::scopeLine() {
  take();
  OpState state;
  state.scopeGuessed = accept("~");
  state.scope = expectName(Token::Kind::String, "the module's path, quoted");
  state.ambient = attributes();
  if (!failed_)
    state_ = graph_->intern(state);
}

int Parser::number(std::string_view what) {
  Loc loc = token_.loc;
  int64_t value = expectInt(what);
  if (value < 0 || value > std::numeric_limits<int>::max())
    error(loc, fmt::format("{} is no number of a line", value));
  return static_cast<int>(value);
}

} // namespace graphopt::ir
