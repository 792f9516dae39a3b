// A precedence-climbing parser over one string; errors travel as a message, since a table row is checked by a
// test and never by a user.
#include "ir/scalar_expr.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <optional>
#include <set>

namespace graphopt::ir {

namespace {
constexpr ScalarFunction kFunctions[] = {
    {"abs", 1, ""},
    {"acos", 1, ""},
    {"acosh", 1, ""},
    {"asin", 1, ""},
    {"asinh", 1, ""},
    {"atan", 1, ""},
    {"atan2", 2, ""},
    {"atanh", 1, ""},
    {"cast", 1,
     "to the dtype of the result, as a C cast; a NaN or too large float to an integer is as in ATen"},
    {"ceil", 1, ""},
    {"copysign", 2, ""},
    {"cos", 1, ""},
    {"cosh", 1, ""},
    {"digamma", 1, ""},
    {"erf", 1, ""},
    {"erfc", 1, ""},
    {"erfinv", 1, ""},
    {"exp", 1, ""},
    {"exp2", 1, ""},
    {"expm1", 1, ""},
    {"floor", 1, ""},
    {"floordiv", 2, "the quotient rounded down; integer division by zero raises"},
    {"fma", 3, "the product of the first two plus the third, rounded once"},
    {"fmod", 2, "the remainder with the sign of the first"},
    {"hypot", 2, ""},
    {"index", 0, "the position of the element in a result of one dim"},
    {"lgamma", 1, ""},
    {"log", 1, ""},
    {"log10", 1, ""},
    {"log1p", 1, ""},
    {"log2", 1, ""},
    {"max", 2, "NaN when one of them is NaN"},
    {"min", 2, "NaN when one of them is NaN"},
    {"pow", 2, ""},
    {"remainder", 2, "the remainder with the sign of the second"},
    {"round", 1, "halves to even"},
    {"rsqrt", 1, "1 / sqrt"},
    {"sign", 1, "-1, 0 or 1; 0 for NaN"},
    {"sin", 1, ""},
    {"sinh", 1, ""},
    {"sqrt", 1, ""},
    {"tan", 1, ""},
    {"tanh", 1, ""},
    {"trunc", 1, ""},
};

// Longest operators first where one is the beginning of another.
struct BinaryOperator {
  std::string_view text;
  int precedence;
};
constexpr BinaryOperator kBinary[] = {
    {"||", 1}, {"&&", 2}, {"==", 6}, {"!=", 6}, {"<<", 8}, {">>", 8}, {"<=", 7}, {">=", 7}, {"|", 3},
    {"^", 4},  {"&", 5},  {"<", 7},  {">", 7},  {"+", 9},  {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10},
};
constexpr int kDeepest = 64; // nesting that a hostile row could otherwise turn into a stack overflow

class Parser {
public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::variant<ScalarExpr, std::string> parseAll() {
    ScalarExpr expr = choice();
    if (error_.empty() && !atEnd())
      fail("expected the end");
    if (!error_.empty())
      return error_;
    return expr;
  }

private:
  void fail(const std::string &what) {
    if (error_.empty())
      error_ = fmt::format("{} at column {}", what, at_ + 1);
  }

  bool atEnd() {
    while (at_ < text_.size() && text_[at_] == ' ')
      ++at_;
    return at_ == text_.size();
  }

  bool take(std::string_view token) {
    if (atEnd() || !text_.substr(at_).starts_with(token))
      return false;
    at_ += token.size();
    return true;
  }

  void expect(std::string_view token) {
    if (!take(token))
      fail(fmt::format("expected '{}'", token));
  }

  template <class P> std::string_view takeWhile(const P &predicate) {
    size_t start = at_;
    while (at_ < text_.size() && predicate(static_cast<unsigned char>(text_[at_])))
      ++at_;
    return text_.substr(start, at_ - start);
  }

  std::string_view word() {
    return takeWhile([](int c) { return std::isalnum(c) || c == '_'; });
  }

  static ScalarExpr make(ScalarExpr::Kind kind, std::string_view text, std::vector<ScalarExpr> args = {}) {
    ScalarExpr expr;
    expr.kind = kind;
    expr.text = text;
    expr.args = std::move(args);
    return expr;
  }

  ScalarExpr choice() {
    if (++depth_ > kDeepest) {
      fail("nested too deeply");
      return {};
    }
    ScalarExpr condition = binary(1);
    if (take("?")) {
      ScalarExpr then = choice();
      expect(":");
      ScalarExpr otherwise = choice();
      condition =
          make(ScalarExpr::Kind::Choice, "", {std::move(condition), std::move(then), std::move(otherwise)});
    }
    --depth_;
    return condition;
  }

  /// The operator that comes next, if it binds at least as tightly as `lowest`.
  const BinaryOperator *takeBinary(int lowest) {
    if (atEnd())
      return nullptr;
    for (const BinaryOperator &op : kBinary) {
      if (!text_.substr(at_).starts_with(op.text))
        continue;
      if (op.precedence < lowest)
        return nullptr;
      at_ += op.text.size();
      return &op;
    }
    return nullptr;
  }

  ScalarExpr binary(int lowest) {
    ScalarExpr left = unary();
    while (const BinaryOperator *op = error_.empty() ? takeBinary(lowest) : nullptr) {
      ScalarExpr right = binary(op->precedence + 1);
      left = make(ScalarExpr::Kind::Binary, op->text, {std::move(left), std::move(right)});
    }
    return left;
  }

  ScalarExpr unary() {
    for (std::string_view op : {"-", "~", "!"}) {
      if (!take(op))
        continue;
      if (++depth_ > kDeepest) {
        fail("nested too deeply");
        return {};
      }
      ScalarExpr expr = make(ScalarExpr::Kind::Unary, op, {unary()});
      --depth_;
      return expr;
    }
    return primary();
  }

  ScalarExpr primary() {
    if (take("(")) {
      ScalarExpr inner = choice();
      expect(")");
      return inner;
    }
    if (take("$"))
      return operand();
    if (take("@"))
      return make(ScalarExpr::Kind::Attribute, name("an attribute"));
    if (!atEnd() && std::isdigit(static_cast<unsigned char>(text_[at_])))
      return number();
    return wordOrCall();
  }

  std::string_view name(std::string_view what) {
    std::string_view found = word();
    if (found.empty())
      fail(fmt::format("expected {}", what));
    return found;
  }

  ScalarExpr operand() {
    std::string_view digits = takeWhile([](int c) { return std::isdigit(c); });
    ScalarExpr expr = make(ScalarExpr::Kind::Operand, "");
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), expr.operand);
    if (digits.empty() || error != std::errc())
      fail("expected an operand's position after '$'");
    return expr;
  }

  ScalarExpr number() {
    ScalarExpr expr = make(ScalarExpr::Kind::Number, "");
    const char *start = text_.data() + at_;
    auto [end, error] = std::from_chars(start, text_.data() + text_.size(), expr.number);
    if (error != std::errc())
      fail("expected a number");
    expr.text.assign(start, end);
    at_ += static_cast<size_t>(end - start);
    return expr;
  }

  ScalarExpr wordOrCall() {
    atEnd();
    size_t start = at_;
    std::string_view found = name("an expression");
    if (found == "inf") {
      ScalarExpr expr = make(ScalarExpr::Kind::Number, found);
      expr.number = std::numeric_limits<double>::infinity();
      return expr;
    }
    auto isIt = [&](const ScalarFunction &f) { return f.name == found; };
    const auto *function = std::find_if(std::begin(kFunctions), std::end(kFunctions), isIt);
    if (function == std::end(kFunctions)) {
      at_ = start;
      fail(fmt::format("unknown function '{}'", found));
      return {};
    }
    ScalarExpr call = make(ScalarExpr::Kind::Call, found, arguments());
    if (call.args.size() != function->arity)
      fail(fmt::format("'{}' takes {} arguments, got {}", found, function->arity, call.args.size()));
    return call;
  }

  std::vector<ScalarExpr> arguments() {
    std::vector<ScalarExpr> args;
    expect("(");
    if (take(")"))
      return args;
    do
      args.push_back(choice());
    while (error_.empty() && take(","));
    expect(")");
    return args;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  std::string error_;
};

template <class F> void visit(const ScalarExpr &expr, const F &f) {
  f(expr);
  for (const ScalarExpr &arg : expr.args)
    visit(arg, f);
}
} // namespace

std::span<const ScalarFunction> scalarFunctions() { return kFunctions; }

std::variant<ScalarExpr, std::string> parseScalar(std::string_view text) { return Parser(text).parseAll(); }

std::vector<size_t> operandsOf(const ScalarExpr &expr) {
  std::set<size_t> found;
  visit(expr, [&](const ScalarExpr &e) {
    if (e.kind == ScalarExpr::Kind::Operand)
      found.insert(e.operand);
  });
  return {found.begin(), found.end()};
}

std::vector<std::string> attributesOf(const ScalarExpr &expr) {
  std::set<std::string> found;
  visit(expr, [&](const ScalarExpr &e) {
    if (e.kind == ScalarExpr::Kind::Attribute)
      found.insert(e.text);
  });
  return {found.begin(), found.end()};
}

std::string toString(const ScalarExpr &expr) {
  std::vector<std::string> args;
  for (const ScalarExpr &arg : expr.args)
    args.push_back(toString(arg));
  switch (expr.kind) {
  case ScalarExpr::Kind::Operand:
    return fmt::format("${}", expr.operand);
  case ScalarExpr::Kind::Attribute:
    return "@" + expr.text;
  case ScalarExpr::Kind::Number:
    return expr.text;
  case ScalarExpr::Kind::Call:
    return fmt::format("{}({})", expr.text, fmt::join(args, ", "));
  case ScalarExpr::Kind::Unary:
    return fmt::format("({}{})", expr.text, args[0]);
  case ScalarExpr::Kind::Binary:
    return fmt::format("({} {} {})", args[0], expr.text, args[1]);
  case ScalarExpr::Kind::Choice:
    return fmt::format("({} ? {} : {})", args[0], args[1], args[2]);
  }
  return {};
}

} // namespace graphopt::ir
