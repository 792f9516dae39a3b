// The text of pipelines: options, named pipelines, order constraints, and every way to be wrong.
#include "passes/manager.h"

#include <graphopt/error.h>
#include <gtest/gtest.h>

namespace graphopt::passes {
namespace {

std::string again(std::string_view text) { return toString(parsePipeline(text)); }

/// The text of the user error, or "" when there is none.
std::string complaint(std::string_view text) {
  try {
    parsePipeline(text);
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), Error::Kind::User) << error.what();
    return error.what();
  }
  return "";
}

TEST(Pipeline, TextReadsBackToItself) {
  for (const char *text : {"", "cse", "functionalize,cse,dce", "fold{max-elements=8},dce", "cse,dce,cse"})
    EXPECT_EQ(again(text), text);
}

TEST(Pipeline, SpacesAreFreeAndOptionsAreSorted) {
  EXPECT_EQ(again("  cse ,\n dce "), "cse,dce");
  EXPECT_EQ(again("fold{ max-elements = 8 }"), "fold{max-elements=8}");
  EXPECT_EQ(again("fold{}"), "fold");
}

TEST(Pipeline, NamedPipelinesExpand) {
  EXPECT_EQ(again("O0"), "functionalize");
  EXPECT_EQ(again("functionalize,cleanup"), again("O1"));
  EXPECT_EQ(again("O1,cleanup"), again("O2"));
}

TEST(Pipeline, AnOrderRowHoldsForTheFirstRunOnly) {
  EXPECT_EQ(complaint("functionalize,cse,functionalize"), "");
  EXPECT_NE(complaint("cse,functionalize").find("pass 'functionalize' must come before 'cse'"),
            std::string::npos);
  EXPECT_EQ(complaint("cse,dce"), "") << "a row speaks only of pipelines that have both";
}

TEST(Pipeline, EveryMalformedTextIsAUserError) {
  for (const char *text :
       {"nothing", "cse,", ",cse", "cse}", "cse{", "fold{max-elements=1", "cse{{}}", "cse dce",
        "fold{max-elements=1}dce", "fold{=1}", "fold{max-elements}", "dce{fast=1}", "O1{a=1}",
        "fold{max-elements=1,max-elements=2}", "fold{,}", "{", "{}"})
    EXPECT_NE(complaint(text), "") << text;
}

} // namespace
} // namespace graphopt::passes
