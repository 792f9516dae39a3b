// Structural equality: names do not matter, everything else does; each change is found by difference and by
// the hash.
#include "ir/compare.h"
#include "ir/parse.h"

#include <gtest/gtest.h>

namespace graphopt::ir {
namespace {

std::string textWith(const std::string &from, const std::string &to) {
  std::string text = R"(graph @g version=1 stage=captured form=raw device=cpu matmul=highest {
  sym B in [1, 8]
  input %x: f32[B, 2]
  buffer %h: f32[2]
  hostval %n: int = 3
  const %big: f32[2] = file "abc"
  guard #0 meta(%x) == f32[B, 2]
  guard #1 grad_mode == off
  scope "fc" {amp=bf16}
  %a: f32[B, 2] = aten.relu(%x)
  %b: f32[B, 2] = aten.add.Tensor(%a, %x) {alpha=1}
  %c: f32[B, 2] = group "k" rows (%a) {
    %0: f32[B, 2] = prim.mul(%a, 0.5)
    yield %0
  }
  aten.copy_(&mut %h, [%b, none])
  border #0 read %b reason="x"
  writeback %h <- %big
  return &%b, %c
})";
  for (size_t at = from.empty() ? text.npos : text.find(from); at != text.npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

TEST(Compare, NamesDoNotMatter) {
  Graph a = parseGraph(textWith("", "")), b = parseGraph(textWith("%a", "%other"));
  EXPECT_EQ(difference(a, b), "");
  EXPECT_EQ(structuralHash(a), structuralHash(b));
  EXPECT_EQ(difference(a, b, {.names = true}), "op 0: result 0: %a against %other");
}

TEST(Compare, StatesCanBeLeftOut) {
  Graph a = parseGraph(textWith("", "")), b = parseGraph(textWith("\"fc\"", "\"other\""));
  EXPECT_EQ(difference(a, b), "op 0: scope or ambient state: fc against other");
  EXPECT_EQ(difference(a, b, {.states = false}), "");
}

class EveryChange : public testing::TestWithParam<std::pair<const char *, const char *>> {};

TEST_P(EveryChange, IsSeen) {
  auto [from, to] = GetParam();
  ASSERT_NE(textWith("", "").find(from), std::string::npos);
  Graph a = parseGraph(textWith("", "")), b = parseGraph(textWith(from, to));
  EXPECT_NE(difference(a, b), "");
  EXPECT_NE(difference(b, a), "");
  EXPECT_NE(structuralHash(a), structuralHash(b));
}

INSTANTIATE_TEST_SUITE_P(
    Compare, EveryChange,
    testing::Values(std::pair("form=raw", "form=functional"), std::pair("device=cpu", "device=cuda:0"),
                    std::pair("matmul=highest", "matmul=high"), std::pair("in [1, 8]", "in [1, 9]"),
                    std::pair("buffer", "param"), std::pair("int = 3", "int = 4"),
                    std::pair("\"abc\"", "\"abd\""), std::pair("%h: f32[2]", "%h: f32[3]"),
                    std::pair("#1 grad_mode", "#2 grad_mode"), std::pair("== off", "== on"),
                    std::pair("grad_mode == off", "grad_mode != off"), std::pair("{amp=bf16}", "{amp=f16}"),
                    std::pair("scope \"fc\"", "scope ~\"fc\""), std::pair("aten.relu", "aten.gelu"),
                    std::pair("(%a, %x)", "(%x, %a)"), std::pair("{alpha=1}", "{alpha=1.0}"),
                    std::pair("{alpha=1}", ""), std::pair("0.5", "0.25"), std::pair("rows", "cols"),
                    std::pair("\"k\"", "\"l\""), std::pair("[%b, none]", "[none, %b]"),
                    std::pair("[%b, none]", "%b"), std::pair("&mut %h", "&%h"),
                    std::pair("border #0", "border #1"), std::pair("reason=\"x\"", "reason=\"y\""),
                    std::pair("<- %big", "<- %b"), std::pair("return &%b, %c", "return &%b"),
                    std::pair("return &%b", "return %b"),
                    std::pair("%b: f32[B, 2] =", "%b: f32[B, 2] strides=[1, B] ="),
                    std::pair("  border #0 read %b reason=\"x\"\n", "")));

TEST(Compare, SameComputationLooksAtTheAmbientStateButNotTheScope) {
  Graph graph = parseGraph(R"(graph @g {
    input %x: f32[2]
    scope "a" {grad=off}
    %a: f32[2] = aten.add.Tensor(%x, %x) {alpha=1}
    scope "b" {grad=off}
    %b: f32[2] = aten.add.Tensor(%x, %x) {alpha=1}
    scope "b"
    %c: f32[2] = aten.add.Tensor(%x, %x) {alpha=1}
    scope "b" {grad=off}
    %d: f32[2] = aten.add.Tensor(%x, %b) {alpha=1}
    %e: f32[2] = aten.add.Tensor(%x, %x) {alpha=2}
    %f: f64[2] = aten.add.Tensor(%x, %x) {alpha=1}
    %g: f32[2] = aten.add.Tensor(&%x, %x) {alpha=1}
    return
  })");
  auto op = [&](const char *name) -> const Op & { return *graph.find(name)->def; };
  EXPECT_TRUE(sameComputation(graph, op("a"), op("b")));
  EXPECT_EQ(hashOf(op("a")), hashOf(op("b")));
  for (const char *other : {"c", "d", "e", "f", "g"})
    EXPECT_FALSE(sameComputation(graph, op("a"), op(other))) << other;
}

} // namespace
} // namespace graphopt::ir
