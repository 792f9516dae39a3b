// The legality table of stages (stages.def) and the table of guard kinds (guards.def), as rows.
#pragma once
#include "ir/graph.h"

#include <span>
#include <string_view>

namespace graphopt::ir {

enum LegalBits : unsigned {
  kDispatcher = 1,
  kComposite = 2,
  kPrims = 4,
  kPlanOps = 8,
  kViews = 16,
  kWrites = 32,
  kUpdates = 64,
  kUpdateChains = 128,
  kGroups = 256,
  kBorders = 512,
  kWritebacks = 1024,
  kVjps = 2048,
  kRedraws = 4096
};

struct StageRow {
  Stage stage;
  Form form; ///< Functional for every stage after captured
  unsigned legal;
};
/// The row of the graph's stage; its form matters in the captured stage only.
const StageRow &stageRow(const Graph &graph);
bool isGroupKind(std::string_view kind);

struct GuardRow {
  std::string_view name;
  std::string_view operands; ///< "value value", "dim", "literal", ""
  std::string_view compares; ///< "== !="
  std::string_view expected; ///< "type", "word", "string", "literal"
  std::string_view help;
};
const GuardRow *findGuard(std::string_view kind);
std::span<const GuardRow> guardRows();

} // namespace graphopt::ir
