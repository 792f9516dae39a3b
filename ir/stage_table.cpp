// Builds the rows of stages.def and guards.def; both tables are short, so a look-up is a walk.
#include "ir/stage_table.h"

#include <algorithm>
#include <graphopt/error.h>

namespace graphopt::ir {

namespace {
constexpr StageRow kStages[] = {
#define STAGE(stage, form, legal) {Stage::stage, Form::form, legal},
#define GROUP_KIND(name)
#include "ir/stages.def"
#undef STAGE
#undef GROUP_KIND
};

constexpr std::string_view kGroupKinds[] = {
#define STAGE(stage, form, legal)
#define GROUP_KIND(name) #name,
#include "ir/stages.def"
#undef STAGE
#undef GROUP_KIND
};

constexpr GuardRow kGuards[] = {
#define GUARD(name, operands, compares, expected, help) {#name, operands, compares, expected, help},
#include "ir/guards.def"
#undef GUARD
};
} // namespace

const StageRow &stageRow(const Graph &graph) {
  Form form = graph.stage == Stage::Captured ? graph.form : Form::Functional;
  auto matches = [&](const StageRow &row) { return row.stage == graph.stage && row.form == form; };
  const StageRow *row = std::find_if(std::begin(kStages), std::end(kStages), matches);
  GO_ASSERT(row != std::end(kStages), "stages.def has no row for a stage");
  return *row;
}

bool isGroupKind(std::string_view kind) {
  return std::find(std::begin(kGroupKinds), std::end(kGroupKinds), kind) != std::end(kGroupKinds);
}

std::span<const GuardRow> guardRows() { return kGuards; }

const GuardRow *findGuard(std::string_view kind) {
  auto matches = [&](const GuardRow &row) { return row.name == kind; };
  const GuardRow *row = std::find_if(std::begin(kGuards), std::end(kGuards), matches);
  return row == std::end(kGuards) ? nullptr : row;
}

} // namespace graphopt::ir
