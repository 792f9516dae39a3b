// Large and hostile texts: work grows with the text, never with its square, and nothing overflows the stack.
// Sizes are such that a quadratic step would take minutes; no time is measured.
#include "ir/compare.h"
#include "ir/parse.h"
#include "ir/print.h"

#include <gtest/gtest.h>

namespace graphopt::ir {
namespace {

bool parses(const std::string &text) {
  Diagnostics diagnostics("t.gir", text);
  bool good = parseGraphs(diagnostics).has_value();
  EXPECT_EQ(good, !diagnostics.hasErrors());
  EXPECT_LE(diagnostics.all().size(), 21u);
  EXPECT_EQ(diagnostics.render().empty(), good);
  return good;
}

std::string repeated(std::string_view text, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i)
    out += text;
  return out;
}

TEST(Scale, AGraphOfManyOpsScopesAndUsesOfOneValue) {
  Graph graph;
  Value *one = graph.declare(Value::Kind::Input, "one", Type::tensor(DType::Float, {2}));
  Value *last = one;
  for (int i = 0; i < 50000; ++i) {
    Op *op =
        graph.append(graph.body(), Op::Kind::Call, "aten.add.Tensor", {Operand::of(last), Operand::of(one)},
                     {{"alpha", Attr::integer(1)}}, {{"add", last->type}});
    op->state = graph.intern({"layer" + std::to_string(i / 2), false, {}});
    last = op->result();
  }
  graph.append(graph.body(), Op::Kind::Return, "", {Operand::of(last)});
  std::string text = print(graph);
  Graph copy = parseGraph(text);
  EXPECT_EQ(print(copy), text);
  EXPECT_EQ(difference(graph, copy, {.names = true}), "");
  for (Op *op : copy.body().ops())
    if (op->kind == Op::Kind::Call)
      op->setOperand(1, Operand::of(copy.find("one"), Mark::Alias));
  while (!copy.body().empty())
    copy.erase(std::prev(copy.body().end())->get());
  EXPECT_FALSE(copy.find("one")->hasUses());
}

TEST(Scale, DeepNestingIsAnErrorNotAnOverflow) {
  const size_t deep = 200000;
  for (std::string_view opening : {"[", "floordiv(", "mod(1, "}) {
    EXPECT_FALSE(parses("graph @g { aten.x() {a=" + repeated(opening, deep)));
    EXPECT_FALSE(parses("graph @g { aten.x(" + repeated(opening, deep)));
    EXPECT_FALSE(parses("graph @g { input %x: f32[" + repeated(opening, deep)));
  }
  EXPECT_FALSE(parses("graph @g { " + repeated("update () { ", deep)));
  EXPECT_FALSE(parses("graph @g { " + repeated("update () {\n", deep)));
  EXPECT_FALSE(parses("graph @g { aten.x() {a=" + repeated("complex(", deep)));
  EXPECT_FALSE(parses(repeated("graph @g {", deep)));
}

TEST(Scale, LongExpressionsAreAnError) {
  EXPECT_FALSE(parses("graph @g { sym B in [0, inf] input %x: f32[" + repeated("B*", 1000000) + "B] }"));
  std::string sum;
  for (int i = 0; i < 3000; ++i)
    sum += "floordiv(B, " + std::to_string(i + 2) + ") + ";
  EXPECT_FALSE(parses("graph @g { sym B in [0, inf] input %x: f32[" + sum + "B] }"));
  EXPECT_FALSE(parses("graph @g { input %x: f32[99999999999999999999] }"));
  EXPECT_FALSE(parses("graph @g { input %x: f32[9223372036854775807 + 1] }"));
  EXPECT_FALSE(parses("graph @g { aten.x() {a=1e999} }"));
  EXPECT_FALSE(parses("graph @g { input %x: f32[1, 9223372036854775807, 2] strides=[1, 1, 1] }"));
}

TEST(Scale, ManyErrorsEndTheReading) {
  EXPECT_FALSE(parses("graph @g {\n" + repeated("%x = bad\n", 1000000) + "}"));
  EXPECT_FALSE(parses("graph @g {\n" + repeated("input %x: f32[2]\n", 1000000) + "}"));
  EXPECT_FALSE(parses(repeated("\"never closed\n", 1000000)));
  EXPECT_FALSE(parses(repeated("}", 1000000)));
  EXPECT_FALSE(parses("graph @g {" + repeated("\xff", 1000000)));
  EXPECT_FALSE(parses(std::string(1000000, '\0')));
}

TEST(Scale, ManySymsAndLongLines) {
  std::string syms, sizes;
  for (int i = 0; i < 100000; ++i) {
    syms += "sym S" + std::to_string(i) + " in [0, inf] ";
    sizes += (i ? ", S" : "S") + std::to_string(i);
  }
  EXPECT_TRUE(parses("graph @g { " + syms + " aten.x() {sizes=[" + sizes + "]} }"));
}

TEST(Scale, EveryPrefixAndEveryChangedByteIsSafe) {
  const std::string text = R"(graph @net version=1 stage=captured form=raw device=cpu x=off {
  sym B in [0, inf]
  input %x: f32[B, 2] strides=[1, B] device=cuda:0 wrapped
  const %k: i64[2] = [1, 2]
  guard #0 meta(%x) == f32[B, 2]
  scope ~"fc" {amp=bf16}
  %a, %b: f32[2*B + 1] = aten.chunk(&%x, [%k, none]) {c="\x41", z=complex(1.0, -inf)}
  %u: f32[2] = update (%a) {
    yield %a
  }
  border #0 read %a at="fc" seq=7
  writeback %x <- %u
  return &%a
}
)";
  ASSERT_TRUE(parses(text));
  for (size_t i = 0; i < text.size(); ++i) {
    parses(text.substr(0, i));
    for (char c : {'\0', '\xff', '"', '}', '{', '[', '%', '\n', '0', 'B', ' '}) {
      std::string changed = text;
      changed[i] = c;
      parses(changed);
    }
  }
}

} // namespace
} // namespace graphopt::ir
