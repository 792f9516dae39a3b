// What the parser says about wrong texts: place, words, caret and notes, and that one mistake gives one
// message. The messages one by one are in test/ir/parse-errors.gir.
#include "ir/parse.h"

#include <graphopt/error.h>
#include <gtest/gtest.h>

namespace graphopt::ir {
namespace {

std::string errorsOf(const std::string &text) {
  Diagnostics diagnostics("t.gir", text);
  EXPECT_FALSE(parseGraphs(diagnostics));
  return diagnostics.render();
}

TEST(ParseErrors, ShowTheLineWithACaretAndTheOtherPlace) {
  EXPECT_EQ(errorsOf("graph @g {\n  input %x: f32[2]\n  input %x: f32[3]\n}\n"),
            "t.gir:3:9: error: '%x' is defined twice\n"
            "  input %x: f32[3]\n"
            "        ^~\n"
            "t.gir:2:9: note: '%x' is declared here\n");
}

TEST(ParseErrors, ReadingGoesOnAtTheNextLine) {
  EXPECT_EQ(errorsOf("graph @g {\n"
                     "  input %x: f33[2]\n"
                     "  %y: f32[2] = aten.relu(%x)\n"
                     "  %z: f32[2] = aten.relu(%w)\n"
                     "  %z.1: f32[2] = aten.relu(%z)\n"
                     "  return %y\n"
                     "}\n"),
            "t.gir:2:13: error: unknown dtype 'f33'\n"
            "  input %x: f33[2]\n"
            "            ^~~\n"
            "t.gir:4:26: error: undefined value '%w'\n"
            "  %z: f32[2] = aten.relu(%w)\n"
            "                         ^~\n");
}

TEST(ParseErrors, AFailedHeadTakesItsBodyWithIt) {
  EXPECT_EQ(errorsOf("graph @g {\n  %y: f33[2] = group \"k\" rows () {\n    %0: f32[2] = prim.x() {a=1}\n    "
                     "yield %0\n  }\n"
                     "  return %y\n}\n"),
            "t.gir:2:7: error: unknown dtype 'f33'\n  %y: f33[2] = group \"k\" rows () {\n      ^~~\n");
}

TEST(ParseErrors, AnErrorInABodyLeavesTheBodyClosed) {
  EXPECT_EQ(
      errorsOf("graph @g {\n  %y: f32[2] = update () { %c: f32[2] = aten.x(%n) yield %c }\n  return %y\n}\n"),
      "t.gir:2:48: error: undefined value '%n'\n"
      "  %y: f32[2] = update () { %c: f32[2] = aten.x(%n) yield %c }\n"
      "                                               ^~\n");
}

TEST(ParseErrors, LongAndOddLinesAreCutAndCleaned) {
  std::string text = "graph @g { aten.x(\x01\xff\t%\"\xc3\xa9\", " + std::string(300, ' ') + ") }";
  EXPECT_EQ(errorsOf(text), "t.gir:1:19: error: unexpected byte 0x01\n"
                            "graph @g { aten.x(?? %\"\xc3\xa9\", " +
                                std::string(90, ' ') + "...\n                  ^\n");
}

TEST(ParseErrors, AnotherVersionIsSaidAndNothingElse) {
  EXPECT_EQ(errorsOf("graph @g version=2 {\n  whatever\n}\n"),
            "t.gir:1:18: error: version 2 of the text; this build reads version 1\ngraph @g version=2 {\n    "
            "             ^\n");
}

TEST(ParseErrors, ParseGraphThrowsThem) {
  EXPECT_THROW(parseGraph("graph @g { return %x }"), Error);
  EXPECT_THROW(parseGraph(""), Error);
  EXPECT_THROW(parseGraph("graph @a { } graph @b { }"), Error);
}

} // namespace
} // namespace graphopt::ir
