// Rule texts parse, and patterns match by value, size and attribute as rewrite.h says.
#include "passes/rewrite.h"

#include "ir/parse.h"

#include <graphopt/error.h>
#include <gtest/gtest.h>

namespace graphopt::passes {
namespace {

TEST(RewriteTable, EveryRuleUsesTheNamesOfItsPattern) {
  for (const Rewrite &rule : rewriteTable()) {
    EXPECT_EQ(rule.pattern.kind, Pattern::Kind::Call) << rule.name;
    EXPECT_FALSE(rule.equation.empty()) << rule.name;
    std::vector<const Pattern *> open = {&rule.pattern};
    std::string names;
    while (!open.empty()) {
      const Pattern *node = open.back();
      open.pop_back();
      if (node->kind == Pattern::Kind::Var)
        names += "%" + node->name + ";";
      for (const Pattern &arg : node->args)
        open.push_back(&arg);
    }
    if (rule.replacement.kind == Pattern::Kind::Var) {
      EXPECT_NE(names.find("%" + rule.replacement.name + ";"), std::string::npos) << rule.name;
    }
    for (const Pattern &arg : rule.replacement.args) {
      EXPECT_NE(arg.kind, Pattern::Kind::Call) << rule.name << ": one operator";
      if (arg.kind == Pattern::Kind::Var) {
        EXPECT_NE(names.find("%" + arg.name + ";"), std::string::npos) << rule.name;
      }
    }
  }
}

TEST(Pattern, MalformedTextIsAnAssertion) {
  for (const char *text : {"", "aten.t(", "aten.t(%)", "aten.t(%x) {", "aten.t(%x) {a}", "aten.t(%x) x", "%"})
    EXPECT_THROW(parsePattern(text), Error) << text;
}

struct Case {
  const char *pattern, *op;
  bool fits;
};

TEST(Matcher, ByValueSizeAndAttribute) {
  const Case cases[] = {
      {"aten.add.Tensor(%a, %b)", "aten.add.Tensor(%x, %y)", true},
      {"aten.add.Tensor(%a, %a)", "aten.add.Tensor(%x, %y)", false},
      {"aten.add.Tensor(%a, %a)", "aten.add.Tensor(%x, %x)", true},
      {"aten.add.Tensor(%a[M,N], %b[M,N])", "aten.add.Tensor(%x, %y)", true},
      {"aten.add.Tensor(%a[M,M], %b)", "aten.add.Tensor(%x, %y)", false},
      {"aten.add.Tensor(%a[N], %b)", "aten.add.Tensor(%x, %y)", false},
      {"aten.add.Tensor(%a, %b)", "aten.add.Tensor(%x, %y) {alpha=1}", false},
      {"aten.add.Tensor(%a, %b) {alpha?=1}", "aten.add.Tensor(%x, %y) {alpha=1.0}", true},
      {"aten.add.Tensor(%a, %b) {alpha?=1}", "aten.add.Tensor(%x, %y)", true},
      {"aten.add.Tensor(%a, %b) {alpha=1}", "aten.add.Tensor(%x, %y)", false},
      {"aten.add.Tensor(%a, %b) {alpha=2|-3}", "aten.add.Tensor(%x, %y) {alpha=-3}", true},
      {"aten.add.Tensor(%a, %b) {alpha=2|-3}", "aten.add.Tensor(%x, %y) {alpha=3}", false},
      {"aten.add.Tensor(%a, none)", "aten.add.Tensor(%x, %y)", false},
      {"aten.sub.Tensor(%a, %b)", "aten.add.Tensor(%x, %y)", false},
  };
  for (const Case &c : cases) {
    const ir::Graph graph =
        ir::parseGraph(std::string("graph @g version=1 stage=captured form=functional device=cpu {\n"
                                   "  input %x: f32[2, 3]\n  input %y: f32[2, 3]\n  %z: f32[2, 3] = ") +
                       c.op + "\n  return %z\n}\n");
    const Rewrite rule{"rule", Rounding::Exact, parsePattern(c.pattern), parsePattern("%a"), ""};
    EXPECT_EQ(match(rule, *graph.body().ops()[0], graph, nullptr).has_value(), c.fits)
        << c.pattern << " on " << c.op;
  }
}

} // namespace
} // namespace graphopt::passes
