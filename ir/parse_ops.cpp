// Operations: results, the head of each kind of op, bodies; and who may define which name.
#include "ir/parser.h"
#include "ir/quote.h"

#include <fmt/format.h>

namespace graphopt::ir {

void Parser::operation(Block &block) {
  std::vector<Result> results = this->results();
  Loc loc = token_.loc;
  Head head = this->head();
  bool ends =
      head.kind == Op::Kind::Writeback || head.kind == Op::Kind::Return || head.kind == Op::Kind::Yield;
  if (ends && !results.empty())
    error(loc, "this operation has no results");
  if (!failed_)
    return build(block, head, results, loc);
  for (const Result &result : results) {
    pending_.erase(result.name);
    broken_.insert(result.name);
  }
}

/// "%a, %b: f32[2], %n: int =", or nothing.
std::vector<Parser::Result> Parser::results() {
  std::vector<Result> results;
  size_t typed = 0; // how many have their type
  if (token_.kind != Token::Kind::ValueName)
    return results;
  do {
    Loc loc = token_.loc;
    std::string name = expectName(Token::Kind::ValueName, "a result, as %x");
    if (!failed_ && define(name, loc))
      results.push_back({std::move(name), loc, {}});
    if (!accept(":"))
      continue;
    Type shared = type();
    for (; typed < results.size(); ++typed)
      results[typed].type = shared;
  } while (accept(","));
  if (typed < results.size())
    unexpected("':' and the type of the result");
  expect("=", "and the operation");
  return results;
}

Parser::Head Parser::head() {
  if (atWord("group"))
    return regionHead(Op::Kind::Group);
  if (atWord("update"))
    return regionHead(Op::Kind::Update);
  if (atWord("vjp"))
    return regionHead(Op::Kind::Vjp);
  if (atWord("redraw"))
    return regionHead(Op::Kind::Redraw);
  if (atWord("border"))
    return borderHead();
  if (atWord("writeback"))
    return writebackHead();
  Head head;
  if (atWord("return") || atWord("yield")) {
    head.kind = atWord("return") ? Op::Kind::Return : Op::Kind::Yield;
    take();
    head.operands = bareOperands();
    return head;
  }
  bool isQuoted = token_.kind == Token::Kind::String;
  bool hasNamespace =
      token_.kind == Token::Kind::Ident && token_.text.find_first_of(".:") != token_.text.npos;
  if (!isQuoted && !hasNamespace) {
    unexpected("an operation, as aten.add.Tensor");
    return head;
  }
  Token name = take();
  head.name = isQuoted ? name.value : std::string(name.text);
  expect("(", "to begin the operands");
  head.operands = operandList(")", "to end the operands");
  head.attrs = attributes();
  return head;
}

/// group "name" kind (operands) with {attrs} { ... }, and update likewise.
Parser::Head Parser::regionHead(Op::Kind kind) {
  Head head;
  head.kind = kind;
  take();
  bool isGroup = kind == Op::Kind::Group;
  if (isGroup || token_.kind == Token::Kind::String)
    head.name = expectName(Token::Kind::String, "the group's name, quoted");
  if (isGroup && !at("("))
    head.groupKind = expectKey("the group's kind, as rows");
  expect("(", "to begin the values that the body uses");
  head.operands = operandList(")", "to end the values that the body uses");
  if (atWord("with")) {
    take();
    head.attrs = attributes();
  }
  head.open = token_.loc;
  expect("{", "to begin the body");
  return head;
}

/// border #0 read %nz reason="nonzero" seq=7
Parser::Head Parser::borderHead() {
  Head head;
  head.kind = Op::Kind::Border;
  take();
  expect("#", "and the border's number");
  head.number = number("the border's number");
  head.name = expectKey("what happened, as read");
  if (token_.kind == Token::Kind::ValueName || at("&") || at("["))
    head.operands = bareOperands();
  auto isKey = [](const Token &t) { return t.kind == Token::Kind::Ident || t.kind == Token::Kind::String; };
  while (isKey(token_) && ahead_.is("="))
    head.attrs.push_back(attribute());
  return head;
}

Parser::Head Parser::writebackHead() {
  Head head;
  head.kind = Op::Kind::Writeback;
  take();
  head.operands.push_back(operand());
  expect("<-", "and the new value");
  head.operands.push_back(operand());
  return head;
}

void Parser::build(Block &block, const Head &head, const std::vector<Result> &results, Loc loc) {
  Op *op = graph_->append(block, head.kind, head.name, head.operands, head.attrs);
  op->groupKind = head.groupKind;
  op->number = head.number;
  op->loc = loc;
  if (op->computes())
    op->state = state_;
  if (op->isRegion() && deeper()) {
    this->block(graph_->makeBody(op), head.open);
    --depth_;
  }
  for (const Result &result : results) {
    pending_.erase(result.name);
    graph_->addResult(op, result.name, result.type)->loc = result.loc;
  }
}

/// Claims the name; the caller makes the value and takes the name out of pending_.
bool Parser::define(const std::string &name, Loc loc) {
  const Value *known = graph_->find(name);
  auto pending = pending_.find(name);
  if (!known && pending == pending_.end()) {
    pending_.emplace(name, loc);
    return true;
  }
  Note note = known ? declaredHere(*known)
                    : Note{pending->second, fmt::format("'{}' is defined here", valueText(name))};
  error(loc, fmt::format("'{}' is defined twice", valueText(name)), {note});
  return false;
}

Note Parser::declaredHere(const Value &value) const {
  return {value.loc,
          fmt::format("'{}' is {} here", valueText(value.name), value.isResult() ? "defined" : "declared")};
}

} // namespace graphopt::ir
