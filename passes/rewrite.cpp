// Matching: one walk down the operands, binding names as it goes. Patterns are straight expressions without
// choice, so the first failure is final.
#include "passes/rewrite.h"

#include "ir/effects.h"

#include <algorithm>
#include <graphopt/error.h>

namespace graphopt::passes {
namespace {

std::optional<double> numberOf(const ir::Attr &attr) {
  if (attr.kind() == ir::Attr::Kind::Float)
    return attr.asReal();
  if (attr.isInt() && attr.asDim().isConstant())
    return static_cast<double>(attr.asInt());
  return std::nullopt;
}

bool sameLiteral(const ir::Attr &a, const ir::Attr &b) {
  const std::optional<double> x = numberOf(a), y = numberOf(b);
  return x && y ? *x == *y : a == b;
}

class Matcher {
public:
  Matcher(const Rewrite &rule, const ir::Op &root, const ir::Graph &graph, const ir::OpCatalog *catalog)
      : rule_(rule), root_(root), graph_(graph), catalog_(catalog) {}

  std::optional<Match> run() {
    if (root_.results().size() != 1 || !matchOp(rule_.pattern, root_))
      return std::nullopt;
    return std::move(match_);
  }

private:
  bool matchOp(const Pattern &pattern, const ir::Op &op) {
    if (!op.isCall(pattern.name) || !ir::isMergeable(op, catalog_) || !sameSurroundings(op))
      return false;
    if (&op != &root_ && !isOursAlone(op))
      return false;
    return matchOperands(pattern, op) && matchAttrs(pattern, op);
  }

  /// Ambient state decides what an operator computes (autocast) and whether it has a history.
  bool sameSurroundings(const ir::Op &op) const {
    const bool sameState = graph_.states[op.state].ambient == graph_.states[root_.state].ambient;
    return sameState && op.parent() == root_.parent() && hasRootDtype(op.result()->type);
  }

  /// A rule that rounds anew does so in one dtype: a mix would promote in another place.
  bool hasRootDtype(const ir::Type &type) const {
    return rule_.rounding == Rounding::Exact || (type.isTensor() && type.dtype == root_.result()->type.dtype);
  }

  static bool isOursAlone(const ir::Op &op) {
    bool isView = false;
    op.forEachValue([&](const ir::Operand &operand) { isView |= operand.mark == ir::Mark::Alias; });
    return op.results().size() == 1 && (isView || op.result()->users().size() == 1);
  }

  bool matchOperands(const Pattern &pattern, const ir::Op &op) {
    const auto &operands = op.operands();
    if (operands.size() > pattern.args.size())
      return false;
    for (size_t i = 0; i < pattern.args.size(); ++i)
      if (!matchOperand(pattern.args[i], i < operands.size() ? operands[i] : ir::Operand::none()))
        return false;
    return true;
  }

  bool matchOperand(const Pattern &pattern, const ir::Operand &operand) {
    if (pattern.kind == Pattern::Kind::None)
      return operand.kind == ir::Operand::Kind::None;
    if (operand.kind != ir::Operand::Kind::Value || !operand.value->type.isTensor())
      return false;
    if (pattern.kind == Pattern::Kind::Call)
      return operand.value->def && matchOp(pattern, *operand.value->def);
    const auto [known, isNew] = match_.values.emplace(pattern.name, operand.value);
    if (!isNew && known->second != operand.value)
      return false;
    return hasRootDtype(operand.value->type) && matchDims(pattern, operand.value->type);
  }

  bool matchDims(const Pattern &pattern, const ir::Type &type) {
    if (!pattern.dims)
      return true;
    if (pattern.dims->size() != type.rank())
      return false;
    for (size_t i = 0; i < type.rank(); ++i) {
      const auto [known, isNew] = match_.dims.emplace((*pattern.dims)[i], type.sizes[i]);
      if (!isNew && !ir::provablyEqual(known->second, type.sizes[i], graph_.syms))
        return false;
    }
    return true;
  }

  bool matchAttrs(const Pattern &pattern, const ir::Op &op) {
    auto isNamed = [&](const ir::NamedAttr &attr) {
      return std::any_of(pattern.attrs.begin(), pattern.attrs.end(),
                         [&](const PatternAttr &wanted) { return wanted.name == attr.name; });
    };
    return std::all_of(op.attrs.begin(), op.attrs.end(), isNamed) &&
           std::all_of(pattern.attrs.begin(), pattern.attrs.end(),
                       [&](const PatternAttr &wanted) { return matchAttr(wanted, op.attr(wanted.name)); });
  }

  bool matchAttr(const PatternAttr &wanted, const ir::Attr *actual) {
    if (!actual)
      return wanted.optional;
    if (wanted.binding.empty())
      return std::any_of(wanted.values.begin(), wanted.values.end(),
                         [&](const ir::Attr &value) { return sameLiteral(value, *actual); });
    const auto [known, isNew] = match_.attrs.emplace(wanted.binding, *actual);
    return isNew || sameLiteral(known->second, *actual);
  }

  const Rewrite &rule_;
  const ir::Op &root_;
  const ir::Graph &graph_;
  const ir::OpCatalog *catalog_;
  Match match_;
};

} // namespace

std::optional<Match> match(const Rewrite &rule, const ir::Op &root, const ir::Graph &graph,
                           const ir::OpCatalog *catalog) {
  return Matcher(rule, root, graph, catalog).run();
}

std::vector<ir::Operand> operandsOf(const Pattern &replacement, const Match &match) {
  std::vector<ir::Operand> operands;
  for (const Pattern &arg : replacement.args)
    operands.push_back(arg.kind == Pattern::Kind::None ? ir::Operand::none()
                                                       : ir::Operand::of(match.values.at(arg.name)));
  return operands;
}

std::vector<ir::NamedAttr> attrsOf(const Pattern &replacement, const Match &match) {
  std::vector<ir::NamedAttr> attrs;
  for (const PatternAttr &attr : replacement.attrs)
    attrs.push_back({attr.name, attr.binding.empty() ? attr.values.front() : match.attrs.at(attr.binding)});
  return attrs;
}

} // namespace graphopt::passes
