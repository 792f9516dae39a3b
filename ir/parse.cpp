// The parser's frame: tokens, errors and recovery, graphs and their headers, blocks of statements, the entry
// points.
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
  for (Value::Kind kind : {Input, Param, Buffer, Outside, HostVal, Const, Cotangent})
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
  afterTaken_ = {line_, token_.loc.column + token_.loc.length, 1};
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
  if (token_.loc.line > line_ && line_ == afterTaken_.line) // what is missing is missing on the line before
    return error(afterTaken_, fmt::format("expected {}, got the end of the line", expected));
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
  std::unordered_set<std::string> seen;
  while (token_.kind == Token::Kind::Ident || token_.kind == Token::Kind::String) {
    Loc loc = token_.loc;
    std::string key = expectKey("a key of the header");
    expect("=", "after a key of the header");
    if (!seen.insert(key).second)
      error(loc, fmt::format("'{}' is given twice", key));
    Loc valueLoc = token_.loc;
    Attr value = literal();
    if (!failed_)
      setting(key, valueLoc, value);
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

Dim parseDim(std::string_view text, const std::vector<std::string> &syms) {
  Diagnostics diagnostics("", std::string(text));
  Dim dim = Parser(diagnostics).onlyDim(syms);
  if (diagnostics.hasErrors())
    userError("this is no size:\n" + diagnostics.render());
  return dim;
}

} // namespace graphopt::ir
