// The tables of passes, order constraints and named pipelines, as C++ values made from the .def files.
#include "passes/pass_list.h"

#include <algorithm>

namespace graphopt::passes {
namespace {

constexpr StageClaim kAny = {};
constexpr StageClaim kCaptured = {ir::Stage::Captured, std::nullopt};
constexpr StageClaim kCapturedRaw = {ir::Stage::Captured, ir::Form::Raw};
constexpr StageClaim kCapturedFunctional = {ir::Stage::Captured, ir::Form::Functional};
constexpr StageClaim kLowered = {ir::Stage::Lowered, std::nullopt};
constexpr StageClaim kFunctional = {std::nullopt, ir::Form::Functional};
constexpr StageClaim kCore = {ir::Stage::Core, std::nullopt};

} // namespace

const std::vector<PassRow> &passTable() {
  static const std::vector<PassRow> table = {
#define PASS(name, function, needs, yields, options, help)                                                   \
  {name, function, needs, yields, options, help, false},
#define HIDDEN(name, function, needs, yields, options, help)                                                 \
  {name, function, needs, yields, options, help, true},
#include "passes/passes.def"
#undef HIDDEN
#undef PASS
  };
  return table;
}

const PassRow *findPass(std::string_view name) {
  const auto &table = passTable();
  auto it = std::find_if(table.begin(), table.end(), [&](const PassRow &row) { return row.name == name; });
  return it == table.end() ? nullptr : &*it;
}

const std::vector<OrderRow> &orderTable() {
  static const std::vector<OrderRow> table = {
#define ORDER(before, after, why) {before, after, why},
#include "passes/order.def"
#undef ORDER
  };
  return table;
}

const std::vector<NamedPipeline> &namedPipelines() {
  static const std::vector<NamedPipeline> table = {
#define PIPELINE(name, text, help) {name, text, help},
#include "passes/pipelines.def"
#undef PIPELINE
  };
  return table;
}

std::string toString(const StageClaim &claim) {
  std::string text = claim.stage ? std::string(ir::toString(*claim.stage)) : "any stage";
  if (claim.form)
    text += ", " + std::string(ir::toString(*claim.form)) + " form";
  return text;
}

bool meets(const ir::Graph &graph, const StageClaim &claim) {
  if (claim.stage && *claim.stage != graph.stage)
    return false;
  return !claim.form || graph.stage != ir::Stage::Captured || *claim.form == graph.form;
}

} // namespace graphopt::passes
