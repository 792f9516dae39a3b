// Rewrite rules as text, and the matcher for them. A pattern is an expression over operators as the IR prints
// them:
//
//   aten.addmm(%b[N], %x[M,K], aten.t(%w[N,K])) {beta?=1, alpha?=1}
//
//   %x        any tensor; the same name again must be the same value
//   %x[M,K]   of this rank; equal letters are provably equal sizes
//   none      a missing optional tensor
//   a=1|-2    the attribute is one of these (numbers by value: 1 is 1.0); a?=1: or missing; a=$v: any, and v
//   names it
//
// Every attribute of a matched operator is named in its pattern. Operators inside a pattern have no other
// user, except for views, which stay for theirs. A replacement is one operator over the names of the pattern,
// or one of its values.
#pragma once
#include "ir/graph.h"
#include "ir/op_catalog.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graphopt::passes {

struct PatternAttr {
  std::string name;
  bool optional = false;
  std::vector<ir::Attr> values; // one of these; empty when bound
  std::string binding;          // "a" of $a
};

struct Pattern {
  enum class Kind { Call, Var, None };
  Kind kind = Kind::None;
  std::string name;                             // of the operator or the variable
  std::optional<std::vector<std::string>> dims; // Var: its sizes by letter; nothing: any rank
  std::vector<Pattern> args;
  std::vector<PatternAttr> attrs;
};

/// Parses a pattern or a replacement. GO_ASSERTs that it is well formed: rules are part of the program.
Pattern parsePattern(std::string_view text);

enum class Rounding { Exact, Rounds };

struct Rewrite {
  std::string_view name;
  Rounding rounding;
  Pattern pattern, replacement;
  std::string_view equation;
};
/// rules/rewrites.def, in order.
const std::vector<Rewrite> &rewriteTable();

/// What the names of a pattern stand for.
struct Match {
  std::map<std::string, ir::Value *, std::less<>> values;
  std::map<std::string, ir::Dim, std::less<>> dims;
  std::map<std::string, ir::Attr, std::less<>> attrs;
};
/// Matches the rule at its outermost operator `root`. Nothing when it does not fit.
std::optional<Match> match(const Rewrite &rule, const ir::Op &root, const ir::Graph &graph,
                           const ir::OpCatalog *catalog);

/// Operands and attributes of the replacement, a Call, under a match.
std::vector<ir::Operand> operandsOf(const Pattern &replacement, const Match &match);
std::vector<ir::NamedAttr> attrsOf(const Pattern &replacement, const Match &match);

} // namespace graphopt::passes
