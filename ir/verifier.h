// What the verifier's files share: the graph, where errors go, and the words every message starts with.
#pragma once
#include "ir/alias.h"
#include "ir/stage_table.h"
#include "ir/verify.h"

#include <fmt/format.h>

namespace graphopt::ir {

class Verifier {
public:
  Verifier(const Graph &graph, Diagnostics &diagnostics, const OpCatalog *catalog)
      : graph(graph), catalog(catalog), stage(stageRow(graph)), diagnostics_(diagnostics) {}

  // Each checks the invariants of one file; the letters are those of verify.cpp's head.
  void checkStructure();                       // S
  void checkTypes();                           // T
  void checkGuards();                          // G
  void checkOperators();                       // O
  void checkEffects(const AliasInfo &aliases); // E
  void checkStage();                           // L

  const Graph &graph;
  const OpCatalog *catalog;
  const StageRow &stage;

  bool allows(unsigned bit) const { return (stage.legal & bit) != 0; }
  size_t errors() const { return errors_; }

  Diagnostic &error(Loc loc, std::string message) {
    ++errors_;
    return diagnostics_.error(loc, std::move(message));
  }
  /// "'aten.relu' op ...", at the op, or at one of its operands when that has a place of its own.
  template <class... Args> Diagnostic &error(const Op &op, fmt::format_string<Args...> text, Args &&...args) {
    return error(op.loc,
                 fmt::format("'{}' op {}", label(op), fmt::format(text, std::forward<Args>(args)...)));
  }
  template <class... Args>
  Diagnostic &error(const Op &op, const Operand &operand, fmt::format_string<Args...> text, Args &&...args) {
    return error(operand.loc.line ? operand.loc : op.loc,
                 fmt::format("'{}' op {}", label(op), fmt::format(text, std::forward<Args>(args)...)));
  }
  /// "'%x' ...", at the value's definition.
  template <class... Args>
  Diagnostic &error(const Value &value, fmt::format_string<Args...> text, Args &&...args) {
    return error(value.loc,
                 fmt::format("'%{}' {}", value.name, fmt::format(text, std::forward<Args>(args)...)));
  }

  /// The operator's name, or the keyword of what is no call.
  static std::string_view label(const Op &op);
  /// Every sym of an expression is declared; `where` names the expression in the message.
  void checkSyms(const Dim &dim, Loc loc, std::string_view where);
  void checkSyms(const Attr &attr, Loc loc, std::string_view where);

private:
  Diagnostics &diagnostics_;
  size_t errors_ = 0;
};

/// A value as messages and texts write it.
inline std::string nameOf(const Value &value) { return "%" + value.name; }

} // namespace graphopt::ir
