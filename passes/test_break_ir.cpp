// Breaks the graph on purpose, so that tests can see what the manager says about a broken pass.
#include "passes/pass_list.h"

#include <fmt/format.h>
#include <graphopt/error.h>

namespace graphopt::passes {
namespace {

ir::Op *firstWithUsedResult(ir::Graph &graph) {
  for (ir::Op *op : graph.body().ops())
    for (const ir::Value *value : op->results())
      if (value->hasUses())
        return op;
  userError("test-break-ir needs an operator whose result is used");
}

/// The definition moves behind its first user.
void useBeforeDefinition(ir::Graph &graph) {
  ir::Op *op = firstWithUsedResult(graph);
  graph.moveBefore(op->result()->users().front(), op);
}

/// Another operator with the same operands: a valid graph, but not the same.
void exchangeOperator(ir::Graph &graph) { firstWithUsedResult(graph)->name = "aten.abs"; }

} // namespace

/// how=use-before-definition (the default), lie (changes the graph and says it did not), throw (an internal
/// error).
Changed testBreakIr(ir::Graph &graph, PassContext &context) {
  const auto given = context.options.find("how");
  const std::string how = given == context.options.end() ? "use-before-definition" : given->second;
  if (how == "use-before-definition") {
    useBeforeDefinition(graph);
    return Changed::Yes;
  }
  if (how == "lie") {
    exchangeOperator(graph);
    return Changed::No;
  }
  GO_ASSERT(how != "throw", "test-break-ir was asked to throw");
  userError(fmt::format("test-break-ir knows how=use-before-definition, lie and throw, not '{}'", how));
}

} // namespace graphopt::passes
