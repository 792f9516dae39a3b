// The decompositions: which operators of the lowered stage become prims, and how. Rows are text, in
// rules/core/*.def; docs/operators.md shows how to write one.
#pragma once
#include "ir/graph.h"
#include "passes/rule_text.h"

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace graphopt::passes {

struct CoreOperand {
  std::string name;
  bool asIs = false; ///< "x!": keeps its dtype; others are cast to the dtype that the operator computes in
};
struct CoreAttr {
  std::string name;
  std::optional<ir::Attr> dflt; ///< the schema's default; nothing: always given
};
struct CoreRule {
  std::string_view name; // "aten.add.Tensor"
  std::vector<CoreOperand> operands;
  std::vector<CoreAttr> attrs;
  std::vector<RuleStmt> body;
};

/// nullptr: the operator is an anchor, opaque, or draws; it stays.
const CoreRule *findCoreRule(std::string_view irName);
const std::vector<CoreRule> &coreRules();
/// A row of the tables, read: "a b! | alpha=1" and the rule's text.
CoreRule parseCoreRule(std::string_view name, std::string_view parameters, std::string_view text);

/// Makes prims before `op` that compute its results: one value for each result, of the very type, layout
/// included, and one tensor each unless `op` is a view. Uses are not changed yet. Or the reason why the
/// operator has to stay; the graph is then as it was.
std::variant<std::vector<ir::Value *>, std::string> applyCoreRule(const CoreRule &rule, ir::Op &op,
                                                                  ir::Graph &graph);

} // namespace graphopt::passes
