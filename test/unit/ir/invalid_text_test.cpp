// Runs the cases of test/ir/invalid*.gir through parser and verifier alone, without the tool and without a
// catalog.
#include "ir/diag.h"
#include "ir/parse.h"
#include "ir/verify.h"

#include <fstream>
#include <gtest/gtest.h>
#include <regex>
#include <sstream>

using namespace graphopt::ir;

namespace {
using Expected = std::vector<std::pair<int, std::string>>; // line, text

std::vector<std::string> cases(const std::string &text) {
  std::vector<std::string> parts;
  size_t start = 0;
  for (size_t at = 0; (at = text.find("// -----\n", start)) != std::string::npos; start = at + 9)
    parts.push_back(text.substr(start, at - start));
  parts.push_back(text.substr(start));
  return parts;
}

Expected expectations(const std::string &part) {
  static const std::regex remark(R"(expected-error @\+(\d+) \{\{(.*)\}\})");
  Expected expected;
  std::istringstream lines(part);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::smatch match;
    if (std::regex_search(line, match, remark))
      expected.emplace_back(number + std::stoi(match[1]), match[2]);
  }
  return expected;
}

/// Takes the first expectation that the diagnostic meets; false when there is none.
bool take(Expected &expected, const Diagnostic &diagnostic) {
  for (auto it = expected.begin(); it != expected.end(); ++it) {
    if (it->first != diagnostic.loc.line || diagnostic.message.find(it->second) == std::string::npos)
      continue;
    expected.erase(it);
    return true;
  }
  return false;
}

void check(const std::string &part) {
  Expected expected = expectations(part);
  EXPECT_FALSE(expected.empty()) << "no expected-error in\n" << part;
  Diagnostics diagnostics("invalid.gir", part);
  if (auto graphs = parseGraphs(diagnostics))
    for (const Graph &graph : *graphs)
      verify(graph, diagnostics);
  for (const Diagnostic &diagnostic : diagnostics.all())
    EXPECT_TRUE(take(expected, diagnostic)) << "unexpected\n" << diagnostics.render(diagnostic);
  for (const auto &[line, text] : expected)
    ADD_FAILURE() << "line " << line << " gave no '" << text << "' in\n" << part;
}
} // namespace

TEST(InvalidText, EveryCaseGivesItsErrorsAndNoOthers) {
  std::ifstream file(GRAPHOPT_TEST_DIR "/ir/invalid.gir");
  ASSERT_TRUE(file);
  std::stringstream text;
  text << file.rdbuf();
  std::vector<std::string> parts = cases(text.str());
  EXPECT_GT(parts.size(), 40u);
  for (const std::string &part : parts)
    check(part);
}
