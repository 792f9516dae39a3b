// The parser's statements: graph header, declarations, guards, state lines, operations; and its recovery.
#include "ir/parse.h"
#include "ir/parser.h"
#include "ir/quote.h"

#include <algorithm>
#include <fmt/format.h>
#include <graphopt/error.h>
#include <utility>

namespace graphopt::ir {

namespace {
constexpr size_t kMaxErrors = 20;
constexpr int64_t kVersion = 1;

std::string describe(const Token &token) {
  if (token.kind == Token::Kind::End)
    return "the end of the text";
  bool isLong = token.text.size() > 40;
  return fmt::format("'{}{}'", token.text.substr(0, 40), isLong ? "..." : "");
}

std::optional<Value::Kind> declarationKind(const Token &token) {
  using enum Value::Kind;
  for (Value::Kind kind : {Input, Param, Buffer, Outside, HostVal, Const})
    if (token.isWord(toString(kind)))
      return kind;
  return std::nullopt;
}
} // namespace

Parser::Parser(Diagnostics &diagnostics) : diagnostics_(diagnostics), lexer_(diagnostics.source()) {
  token_ = lexer_.next();
  ahead_ = lexer_.next();
}

// ---- tokens and errors

void Parser::advance() {
  token_ = std::move(ahead_);
  ahead_ = lexer_.next();
}

Token Parser::take() {
  if (failed_ || stopped_)
    return token_;
  line_ = token_.loc.line;
  Token taken = std::move(token_);
  advance();
  return taken;
}

bool Parser::accept(std::string_view punct) {
  bool found = at(punct);
  if (found)
    take();
  return found;
}

void Parser::unexpected(std::string_view expected) {
  if (token_.kind == Token::Kind::Error)
    return error(token_.loc, token_.value);
  error(token_.loc, fmt::format("expected {}, got {}", expected, describe(token_)));
}

void Parser::expect(std::string_view punct, std::string_view what) {
  if (!accept(punct))
    unexpected(fmt::format("'{}' {}", punct, what));
}

std::string Parser::expectName(Token::Kind kind, std::string_view what) {
  if (token_.kind == kind)
    return take().value;
  unexpected(what);
  return {};
}

std::string Parser::expectKey(std::string_view what) {
  if (token_.kind == Token::Kind::String)
    return take().value;
  if (token_.kind == Token::Kind::Ident && isPlainKey(token_.text))
    return std::string(take().text);
  unexpected(what);
  return {};
}

int64_t Parser::expectInt(std::string_view what) {
  if (token_.kind == Token::Kind::Int)
    return take().integer;
  unexpected(what);
  return 0;
}

void Parser::error(Loc loc, std::string message, std::vector<Note> notes) {
  if (failed_ || stopped_)
    return;
  diagnostics_.error(loc, std::move(message)).notes = std::move(notes);
  fail();
  if (++errors_ < kMaxErrors)
    return;
  diagnostics_.error(loc,
                     fmt::format("more than {} errors: the rest of the text is not read", kMaxErrors - 1));
  stopped_ = true;
}

void Parser::fail() {
  if (failed_)
    return;
  failed_ = true;
  held_ = std::move(token_);
  token_ = Token();
  token_.loc = held_.loc;
}

/// Goes on at the line after the last token taken, or at the '}' that ends the block. A body that the failed
/// statement opens is skipped whole.
void Parser::recover() {
  failed_ = false;
  depth_ = openBlocks_.empty() ? 0 : static_cast<int>(openBlocks_.size()) - 1;
  int depth = std::exchange(openAttrs_, 0);
  if (stopped_)
    return;
  token_ = std::move(held_);
  bool inBody = false;
  for (; token_.kind != Token::Kind::End; advance()) {
    if (token_.loc.line > line_ && !inBody)
      return;
    if (at("{")) {
      bool opensBody = !inBody && ahead_.loc.line > token_.loc.line;
      depth = opensBody ? 1 : depth + 1;
      inBody |= opensBody;
    } else if (at("}")) {
      if (depth == 0)
        return;
      if (--depth == 0 && inBody) {
        inBody = false;
        line_ = token_.loc.line;
      }
    }
  }
}

// ---- graphs

std::vector<Graph> Parser::file() {
  std::vector<Graph> graphs;
  while (token_.kind != Token::Kind::End) {
    line_ = token_.loc.line;
    if (atWord("graph")) {
      if (std::optional<Graph> one = graph())
        graphs.push_back(std::move(*one));
    } else {
      unexpected("'graph'");
    }
    if (!failed_)
      continue;
    recover();
    while (token_.kind != Token::Kind::End && !atWord("graph"))
      advance();
  }
  return graphs;
}

std::optional<Graph> Parser::graph() {
  take();
  Graph graph;
  graph.file = diagnostics_.file();
  graph_ = &graph;
  state_ = 0;
  syms_.clear();
  pending_.clear();
  broken_.clear();
  header();
  Loc open = token_.loc;
  expect("{", "to begin the graph");
  if (failed_)
    return std::nullopt;
  block(graph.body(), open);
  return graph;
}

void Parser::header() {
  graph_->name = expectName(Token::Kind::GraphName, "the graph's name, as in @main");
  std::vector<std::string> seen;
  while (token_.kind == Token::Kind::Ident || token_.kind == Token::Kind::String) {
    Loc loc = token_.loc;
    std::string key = expectKey("a key of the header");
    expect("=", "after a key of the header");
    if (std::find(seen.begin(), seen.end(), key) != seen.end())
      error(loc, fmt::format("'{}' is given twice", key));
    Loc valueLoc = token_.loc;
    Attr value = literal();
    if (!failed_)
      setting(key, valueLoc, value);
    seen.push_back(std::move(key));
  }
  if (graph_->stage != Stage::Captured)
    graph_->form = Form::Functional;
}

void Parser::setting(const std::string &key, Loc loc, const Attr &value) {
  auto wrong = [&](std::string_view expected) {
    error(loc, fmt::format("{}={} is not known; expected {}", key, toString(value), expected));
  };
  std::string word = value.kind() == Attr::Kind::Word ? value.text() : "";
  if (key == "version") {
    if (value != Attr::integer(kVersion)) {
      error(loc,
            fmt::format("version {} of the text; this build reads version {}", toString(value), kVersion));
      stopped_ = true;
    }
  } else if (key == "stage") {
    std::optional<Stage> stage = parseStage(word);
    stage ? void(graph_->stage = *stage) : wrong("captured, lowered, core, fused or planned");
  } else if (key == "form") {
    std::optional<Form> form = parseForm(word);
    form ? void(graph_->form = *form) : wrong("raw or functional");
  } else if (key == "device") {
    std::optional<Device> device = parseDevice(word);
    device ? void(graph_->device = *device) : wrong("a device, as cpu or cuda:0");
  } else {
    graph_->settings.push_back({key, value});
  }
}

void Parser::block(Block &block, Loc open) {
  openBlocks_.push_back(&block);
  uint32_t outer = state_;
  while (!at("}") && token_.kind != Token::Kind::End && !atWord("graph")) {
    line_ = token_.loc.line;
    statement(block);
    if (failed_)
      recover();
  }
  state_ = outer; // state lines of a body end with it
  openBlocks_.pop_back();
  if (accept("}"))
    return;
  std::string_view what = openBlocks_.empty() ? "to end the graph" : "to end the body";
  error(token_.loc, fmt::format("expected '}}' {}, got {}", what, describe(token_)),
        {{open, "it begins here"}});
  stopped_ = true;
}

void Parser::statement(Block &block) {
  bool nested = block.owner() != nullptr;
  std::optional<Value::Kind> kind = declarationKind(token_);
  if (nested && (kind || atWord("sym") || atWord("guard")))
    return error(token_.loc, fmt::format("'{}' belongs to the graph, not into a body", token_.text));
  if (kind)
    return declaration(*kind);
  if (atWord("sym"))
    return symLine();
  if (atWord("guard"))
    return guardLine();
  if (atWord("scope"))
    return scopeLine();
  operation(block);
}

// ---- lines that are no operations

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
  Value *value = graph_->declare(kind, std::move(name), std::move(declared));
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

// ---- operations

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
  bool isRegion = head.kind == Op::Kind::Group || head.kind == Op::Kind::Update;
  if (isRegion || head.kind == Op::Kind::Call)
    op->state = state_;
  if (isRegion && deeper()) {
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

// ---- the entry points

std::optional<std::vector<Graph>> parseGraphs(Diagnostics &diagnostics) {
  std::vector<Graph> graphs = Parser(diagnostics).file();
  if (diagnostics.hasErrors())
    return std::nullopt;
  return graphs;
}

Graph parseGraph(std::string_view text) {
  Diagnostics diagnostics("", std::string(text));
  std::optional<std::vector<Graph>> graphs = parseGraphs(diagnostics);
  if (!graphs)
    userError("this is no graph:\n" + diagnostics.render());
  if (graphs->size() != 1)
    userError(fmt::format("expected one graph, got {}", graphs->size()));
  return std::move(graphs->front());
}

} // namespace graphopt::ir
