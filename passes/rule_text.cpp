// A recursive-descent parser over characters; a rule is a few lines, so there is no token list.
#include "passes/rule_text.h"

#include <cctype>
#include <charconv>
#include <fmt/format.h>
#include <graphopt/error.h>
#include <limits>
#include <optional>

namespace graphopt::passes {
namespace {
using Kind = RuleExpr::Kind;

struct BinaryOperator {
  std::string_view text;
  int precedence;
};
// Longest first where one is the beginning of another.
constexpr BinaryOperator kBinary[] = {{"||", 1}, {"&&", 2}, {"==", 6}, {"!=", 6}, {"<=", 7},
                                      {">=", 7}, {"|", 3},  {"^", 4},  {"&", 5},  {"<", 7},
                                      {">", 7},  {"+", 9},  {"-", 9},  {"*", 10}, {"/", 10}};

class RuleParser {
public:
  explicit RuleParser(std::string_view text) : text_(text) {}

  std::vector<RuleStmt> parseAll() {
    std::vector<RuleStmt> rule = statements();
    require(at_ == text_.size(), "expected the end");
    return rule;
  }

private:
  void require(bool holds, std::string_view what) const {
    if (!holds)
      GO_ASSERT(false, fmt::format("rule text: {} at '{}' in\n{}", what, text_.substr(at_, 30), text_));
  }

  // ---- characters

  /// Blanks and comments; line ends as well where a statement cannot end.
  void skipBlanks(bool lines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (c == ' ' || c == '\t' || (c == '\n' && (lines || depth_ > 0)))
        ++at_;
      else
        return;
    }
  }

  bool ahead(std::string_view token) {
    skipBlanks(false);
    return text_.substr(at_).starts_with(token);
  }

  bool take(std::string_view token) {
    if (!ahead(token))
      return false;
    at_ += token.size();
    return true;
  }

  void expect(std::string_view token) { require(take(token), fmt::format("expected '{}'", token)); }

  static bool isWordChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

  std::string word() {
    skipBlanks(false);
    const size_t start = at_;
    while (at_ < text_.size() && isWordChar(text_[at_]))
      ++at_;
    return std::string(text_.substr(start, at_ - start));
  }

  bool takeWord(std::string_view wanted) {
    const size_t before = at_;
    if (word() == wanted)
      return true;
    at_ = before;
    return false;
  }

  // ---- statements

  std::vector<RuleStmt> statements() {
    std::vector<RuleStmt> rule;
    for (;;) {
      skipBlanks(true);
      while (take(";"))
        skipBlanks(true);
      if (at_ == text_.size() || ahead("}"))
        return rule;
      rule.push_back(statement());
    }
  }

  std::vector<RuleStmt> block() {
    expect("{");
    const int depth = depth_;
    depth_ = 0; // lines count again
    std::vector<RuleStmt> body = statements();
    depth_ = depth;
    expect("}");
    return body;
  }

  RuleStmt statement() {
    RuleStmt stmt;
    if (takeWord("if"))
      return ifStatement();
    if (takeWord("return")) {
      stmt.kind = RuleStmt::Kind::Return;
      stmt.exprs = exprs();
    } else if (auto names = assigned()) {
      stmt.kind = RuleStmt::Kind::Assign;
      stmt.names = std::move(*names);
      stmt.exprs.push_back(expr());
    } else {
      stmt.exprs.push_back(expr());
    }
    require(at_ == text_.size() || ahead("\n") || ahead(";") || ahead("}"), "expected the end of the line");
    return stmt;
  }

  RuleStmt ifStatement() {
    RuleStmt stmt;
    stmt.kind = RuleStmt::Kind::If;
    stmt.exprs.push_back(expr());
    stmt.then = block();
    if (!takeWord("else"))
      return stmt;
    if (takeWord("if"))
      stmt.otherwise.push_back(ifStatement());
    else
      stmt.otherwise = block();
    return stmt;
  }

  /// The names before a '=', or nothing (and nothing taken) when this is no assignment.
  std::optional<std::vector<std::string>> assigned() {
    const size_t before = at_;
    std::vector<std::string> names;
    do
      names.push_back(word());
    while (take(","));
    if (!names.back().empty() && ahead("=") && !ahead("==")) {
      expect("=");
      return names;
    }
    at_ = before;
    return std::nullopt;
  }

  // ---- expressions

  static RuleExpr make(Kind kind, std::string_view text, std::vector<RuleExpr> args = {}) {
    return {kind, std::string(text), {}, std::move(args)};
  }

  static RuleExpr literal(ir::Attr value) { return {Kind::Literal, {}, std::move(value), {}}; }

  std::vector<RuleExpr> exprs() {
    std::vector<RuleExpr> found{expr()};
    while (take(",")) {
      skipBlanks(true);
      found.push_back(expr());
    }
    return found;
  }

  /// What stands between brackets, where line ends do not count.
  std::vector<RuleExpr> enclosed(std::string_view close) {
    ++depth_;
    std::vector<RuleExpr> found;
    if (!ahead(close))
      found = exprs();
    require(ahead(close), fmt::format("expected '{}'", close));
    --depth_;
    expect(close);
    return found;
  }

  RuleExpr expr() {
    RuleExpr condition = binary(1);
    if (!take("?"))
      return condition;
    RuleExpr then = expr();
    expect(":");
    RuleExpr otherwise = expr();
    return make(Kind::Choice, "", {std::move(condition), std::move(then), std::move(otherwise)});
  }

  const BinaryOperator *takeBinary(int lowest) {
    for (const BinaryOperator &op : kBinary) {
      if (!ahead(op.text))
        continue;
      if (op.precedence < lowest)
        return nullptr;
      expect(op.text);
      return &op;
    }
    return nullptr;
  }

  RuleExpr binary(int lowest) {
    RuleExpr left = unary();
    while (const BinaryOperator *op = takeBinary(lowest)) {
      RuleExpr right = binary(op->precedence + 1);
      left = make(Kind::Binary, op->text, {std::move(left), std::move(right)});
    }
    return left;
  }

  RuleExpr unary() {
    for (std::string_view op : {"-", "!", "~"})
      if (take(op))
        return make(Kind::Unary, op, {unary()});
    RuleExpr found = primary();
    while (take("[")) {
      std::vector<RuleExpr> index = enclosed("]");
      require(index.size() == 1, "expected one index");
      found = make(Kind::Item, "", {std::move(found), std::move(index[0])});
    }
    return found;
  }

  RuleExpr primary() {
    if (take("("))
      return parenthesised();
    if (take("["))
      return list();
    if (take("\""))
      return string();
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])))
      return number();
    return nameOrCall();
  }

  RuleExpr list() {
    ++depth_;
    RuleExpr found = make(Kind::List, "");
    if (!ahead("]"))
      found.args = exprs();
    if (found.args.size() == 1 && takeWord("for")) {
      found = make(Kind::Each, word(), std::move(found.args));
      require(takeWord("in"), "expected 'in'");
      found.args.push_back(expr());
      if (takeWord("if"))
        found.args.push_back(expr());
    }
    require(ahead("]"), "expected ']'");
    --depth_;
    expect("]");
    return found;
  }

  RuleExpr parenthesised() {
    std::vector<RuleExpr> inner = enclosed(")");
    require(inner.size() == 1, "expected one expression in parentheses");
    return std::move(inner[0]);
  }

  RuleExpr string() {
    const size_t end = text_.find('"', at_);
    require(end != std::string_view::npos, "unclosed string");
    std::string value(text_.substr(at_, end - at_));
    at_ = end + 1;
    return literal(ir::Attr::string(std::move(value)));
  }

  RuleExpr number() {
    const char *start = text_.data() + at_, *stop = text_.data() + text_.size();
    int64_t integer = 0;
    double real = 0;
    const auto asInteger = std::from_chars(start, stop, integer);
    const auto asReal = std::from_chars(start, stop, real);
    const bool isInteger = asInteger.ptr == asReal.ptr;
    at_ += static_cast<size_t>(asReal.ptr - start);
    return literal(isInteger ? ir::Attr::integer(integer) : ir::Attr::real(real));
  }

  RuleExpr nameOrCall() {
    const std::string found = word();
    require(!found.empty(), "expected an expression");
    if (take("("))
      return make(Kind::Call, found, enclosed(")"));
    if (found == "none")
      return literal({});
    if (found == "true" || found == "false")
      return literal(ir::Attr::boolean(found == "true"));
    if (found == "inf")
      return literal(ir::Attr::real(std::numeric_limits<double>::infinity()));
    return make(Kind::Name, found);
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0; // of parentheses and brackets
};

} // namespace

std::vector<RuleStmt> parseRule(std::string_view text) { return RuleParser(text).parseAll(); }

} // namespace graphopt::passes
