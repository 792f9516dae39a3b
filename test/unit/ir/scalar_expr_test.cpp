// The scalar language: trees, binding, and messages.
#include "ir/scalar_expr.h"

#include <gtest/gtest.h>

using namespace graphopt::ir;

namespace {
std::string parsed(std::string_view text) {
  auto result = parseScalar(text);
  if (auto *message = std::get_if<std::string>(&result))
    return "error: " + *message;
  return toString(std::get<ScalarExpr>(result));
}
} // namespace

TEST(ScalarExpr, BindsAsInC) {
  EXPECT_EQ(parsed("$0 + $1 * 2"), "($0 + ($1 * 2))");
  EXPECT_EQ(parsed("$0 - $1 - $2"), "(($0 - $1) - $2)");
  EXPECT_EQ(parsed("$0 < $1 ? $1 : $0 > 1 ? 2 : 3"), "(($0 < $1) ? $1 : (($0 > 1) ? 2 : 3))");
  EXPECT_EQ(parsed("$0 << 1 <= $1 && !$2 || ~$3 == 1"), "(((($0 << 1) <= $1) && (!$2)) || ((~$3) == 1))");
  EXPECT_EQ(parsed("$0 | $1 ^ $2 & $3"), "($0 | ($1 ^ ($2 & $3)))");
  EXPECT_EQ(parsed("1 / (1 + exp(-$0))"), "(1 / (1 + exp((-$0))))");
}

TEST(ScalarExpr, PrintsWhatParsesToTheSameTree) {
  for (std::string_view text :
       {"min(max($0, $1), $2)", "@start + index() * @step", "abs($0) < inf", "-1.5e-3"})
    EXPECT_EQ(parsed(parsed(text)), parsed(text)) << text;
}

TEST(ScalarExpr, ListsWhatItUses) {
  ScalarExpr expr = std::get<ScalarExpr>(parseScalar("$2 * @b + $0 * $2 - @a"));
  EXPECT_EQ(operandsOf(expr), (std::vector<size_t>{0, 2}));
  EXPECT_EQ(attributesOf(expr), (std::vector<std::string>{"a", "b"}));
}

TEST(ScalarExpr, SaysWhatIsWrong) {
  EXPECT_EQ(parsed("foo($0)"), "error: unknown function 'foo' at column 1");
  EXPECT_EQ(parsed("$0 + exp"), "error: expected '(' at column 9");
  EXPECT_EQ(parsed("exp($0, $1)"), "error: 'exp' takes 1 arguments, got 2 at column 12");
  EXPECT_EQ(parsed("$0 $1"), "error: expected the end at column 4");
  EXPECT_EQ(parsed("$x"), "error: expected an operand's position after '$' at column 2");
  EXPECT_EQ(parsed("$0 ? $1"), "error: expected ':' at column 8");
  EXPECT_EQ(parsed(""), "error: expected an expression at column 1");
  EXPECT_EQ(parsed("@"), "error: expected an attribute at column 2");
}

TEST(ScalarExpr, RefusesEndlessNesting) {
  EXPECT_EQ(parsed(std::string(100000, '(')), "error: nested too deeply at column 65");
  EXPECT_EQ(parsed(std::string(100000, '-')).substr(0, 24), "error: nested too deeply");
}
