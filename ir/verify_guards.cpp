// Guards against guards.def and the declarations.
#include "ir/verifier.h"

#include <algorithm>

namespace graphopt::ir {

namespace {
/// Splits a column of guards.def at its spaces.
std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  while (!text.empty()) {
    size_t end = std::min(text.find(' '), text.size());
    found.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return found;
}

class GuardChecker {
public:
  GuardChecker(Verifier &verifier, const Guard &guard) : v_(verifier), guard_(guard) {}

  void run() {
    const GuardRow *row = findGuard(guard_.kind);
    if (!row) {
      error("is of no known kind: see guards.def");
      return;
    }
    checkOperands(*row);
    checkComparison(*row);
    if (guard_.kind == "meta")
      checkMeta();
  }

private:
  template <class... Args> void error(fmt::format_string<Args...> text, Args &&...args) {
    v_.error(guard_.loc, fmt::format("guard #{} '{}' {}", guard_.number, guard_.kind,
                                     fmt::format(text, std::forward<Args>(args)...)));
  }

  void checkOperands(const GuardRow &row) {
    std::vector<std::string_view> expected = words(row.operands);
    if (guard_.operands.size() != expected.size()) {
      error("has {} operands, expected {}", guard_.operands.size(), expected.size());
      return;
    }
    for (size_t i = 0; i < expected.size(); ++i)
      checkOperand(i, expected[i]);
  }

  void checkOperand(size_t i, std::string_view expected) {
    const Operand &operand = guard_.operands[i];
    bool isLiteral = operand.kind == Operand::Kind::Literal;
    if (expected == "value") {
      if (operand.kind != Operand::Kind::Value || operand.mark != Mark::None)
        error("operand #{} is no plain value", i);
      else if (!operand.value->isDeclared())
        error("speaks of '{}', which is no declaration", nameOf(*operand.value));
      return;
    }
    bool isDim = isLiteral && operand.literal.isInt();
    bool isText = isLiteral && (operand.literal.kind() == Attr::Kind::Word ||
                                operand.literal.kind() == Attr::Kind::String);
    if (expected == "dim" ? !isDim : !isText)
      error("operand #{} is no {}", i, expected == "dim" ? "expression over syms" : "word or string");
    if (isDim)
      v_.checkSyms(operand.literal, guard_.loc, "a guard");
  }

  void checkComparison(const GuardRow &row) {
    std::vector<std::string_view> compares = words(row.compares);
    if (std::find(compares.begin(), compares.end(), toString(guard_.cmp)) == compares.end())
      error("compares with '{}', expected {}", toString(guard_.cmp), row.compares);
    const Attr *literal = std::get_if<Attr>(&guard_.expected);
    if (!expectedFits(row.expected, literal))
      error("expects {}, expected a {}", literal ? toString(*literal) : "a type", row.expected);
    if (literal)
      v_.checkSyms(*literal, guard_.loc, "a guard");
  }

  bool expectedFits(std::string_view kind, const Attr *literal) const {
    if (kind == "type" || !literal)
      return kind == "type" && !literal;
    if (guard_.cmp == Guard::Cmp::In)
      return isRange(*literal);
    if (kind == "word")
      return literal->kind() == Attr::Kind::Word;
    return kind == "literal" || literal->kind() == Attr::Kind::String;
  }

  static bool isRange(const Attr &literal) {
    if (!literal.isList() || literal.items().size() != 2)
      return false;
    auto isInt = [](const Attr &item) { return item.isInt(); };
    return std::all_of(literal.items().begin(), literal.items().end(), isInt);
  }

  void checkMeta() {
    const Type *expected = std::get_if<Type>(&guard_.expected);
    if (!expected || guard_.operands.size() != 1 || guard_.operands[0].kind != Operand::Kind::Value)
      return; // said already
    const Value &value = *guard_.operands[0].value;
    if (expected->dtype != value.type.dtype || expected->sizes != value.type.sizes)
      error("expects {}, but '{}' is declared as {}", toString(*expected), nameOf(value),
            toString(value.type));
  }

  Verifier &v_;
  const Guard &guard_;
};
} // namespace

void Verifier::checkGuards() {
  int next = 0;
  for (const Guard &guard : graph.guards) {
    if (guard.number != next)
      error(guard.loc,
            fmt::format("guard #{} '{}' is out of order, expected #{}", guard.number, guard.kind, next));
    next = guard.number + 1;
    GuardChecker(*this, guard).run();
  }
}

} // namespace graphopt::ir
