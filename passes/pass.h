// What a pass is: one function over one graph, with a row in passes.def that states its claims.
#pragma once
#include "ir/graph.h"
#include "ir/op_catalog.h"
#include "ir/pieces.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graphopt::passes {

enum class Changed : bool { No = false, Yes = true };

/// Options from the pipeline text: cse{max-ops=32}.
using PassOptions = std::map<std::string, std::string>;

struct PassContext {
  const ir::OpCatalog *catalog = nullptr; ///< may be missing: trust the marks
  ir::PieceSource *pieces = nullptr;      ///< what operators are made of; may be missing: nothing is lowered
  bool eagerNumerics = true;              ///< numerics=eager: rewrites that change rounding are off
  PassOptions options;
  std::map<std::string, int64_t> statistics; ///< a pass counts here; printed by --stats
};

using PassFunction = Changed (*)(ir::Graph &graph, PassContext &context);

/// A condition on graphs at a pass's border: a stage, and for the captured stage a form.
struct StageClaim {
  std::optional<ir::Stage> stage; // nothing: any
  std::optional<ir::Form> form;
};

struct PassRow {
  std::string_view name; // "cse"; its file is passes/cse.cpp, its test test/passes/cse.gir
  PassFunction function;
  StageClaim needs;
  StageClaim yields;        // nothing: as it was
  std::string_view options; // "max-ops": names it takes, space separated
  std::string_view help;    // one line
  bool hidden = false;      // for tests only: runs, but is in no help text
};

const std::vector<PassRow> &passTable();
const PassRow *findPass(std::string_view name);

/// {before, after, why}: where both are in a pipeline, no `after` runs ahead of the first `before`.
struct OrderRow {
  std::string_view before, after, why;
};
const std::vector<OrderRow> &orderTable();

/// A pipeline with a name: its text may name rows above it.
struct NamedPipeline {
  std::string_view name, text, help;
};
const std::vector<NamedPipeline> &namedPipelines();

/// "captured, functional form", "any stage": a claim in words.
std::string toString(const StageClaim &claim);
/// True when a graph at this stage and form meets the claim. A form is asked of captured graphs only: later
/// stages have one.
bool meets(const ir::Graph &graph, const StageClaim &claim);

} // namespace graphopt::passes
