// Line differences: what is shown, what is left out, and that both sides can be had back from it.
#include "passes/listing.h"

#include <gtest/gtest.h>
#include <random>
#include <sstream>

namespace graphopt::passes {
namespace {

TEST(Diff, EqualTextsGiveNothing) {
  EXPECT_EQ(diffLines("", ""), "");
  EXPECT_EQ(diffLines("a\nb\n", "a\nb\n"), "");
}

TEST(Diff, ShowsTheChangeAndTwoLinesAround) {
  EXPECT_EQ(diffLines("1\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\nx\n5\n6\n7\n"),
            "  ...\n 2\n 3\n-4\n+x\n 5\n 6\n  ...\n");
}

TEST(Diff, EmptySides) {
  EXPECT_EQ(diffLines("", "a\n"), "+a\n");
  EXPECT_EQ(diffLines("a\n", ""), "-a\n");
}

TEST(Diff, RepeatedLinesArePairedNextToUniqueOnes) {
  EXPECT_EQ(diffLines("a\n}\nb\n}\n", "a\n}\nb\nc\n}\n"), "  ...\n }\n b\n+c\n }\n");
}

/// The lines with this mark or none, of a difference in which nothing was left out.
std::string side(const std::string &diff, char mark) {
  std::istringstream lines(diff);
  std::string line, text;
  while (std::getline(lines, line))
    if (line[0] == ' ' || line[0] == mark)
      text += line.substr(1) + "\n";
  return text;
}

TEST(Diff, BothSidesCanBeHadBack) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    auto text = [&] {
      std::string lines;
      for (unsigned n = random() % 6; n > 0; --n)
        lines += std::string(1, static_cast<char>('a' + random() % 4)) + "\n";
      return lines;
    };
    const std::string before = text(), after = text();
    const std::string diff = diffLines(before, after);
    if (diff.empty())
      EXPECT_EQ(before, after);
    else if (diff.find("...") == std::string::npos) {
      EXPECT_EQ(side(diff, '-'), before) << diff;
      EXPECT_EQ(side(diff, '+'), after) << diff;
    }
  }
}

TEST(Reproducer, HoldsRunLineFailureAndGraph) {
  ManagerOptions options;
  options.eagerNumerics = false;
  const PipelineStep step{findPass("fold"), {{"max-elements", "8"}}};
  EXPECT_EQ(reproducerText(step, options, "it\nfailed", "graph\n"),
            "// RUN: graphopt opt %s --pass-pipeline='fold{max-elements=8}' --numerics=free --no-catalog\n"
            "// it\n// failed\ngraph\n");
}

} // namespace
} // namespace graphopt::passes
