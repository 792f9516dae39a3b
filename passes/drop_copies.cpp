// An operator in place is clone and operator in the functional form; below the captured stage nothing is
// written any more but what the caller holds, at the end. So a copy is its original wherever nobody can tell
// them apart.
#include "passes/pass_list.h"

#include "ir/alias.h"

#include <algorithm>
#include <unordered_set>

namespace graphopt::passes {
namespace {

class CopyDropper {
public:
  explicit CopyDropper(ir::Graph &graph) : graph_(graph), aliases_(graph) {
    for (const ir::Operand &operand : graph.returnOp()->operands())
      if (operand.isValue())
        seen_.insert(aliases_.base(operand.value));
  }

  int64_t run() {
    std::vector<ir::Op *> copies = graph_.body().ops(); // all are found before the first goes
    std::erase_if(copies, [&](const ir::Op *op) { return !isPlainCopy(*op); });
    for (ir::Op *op : copies) {
      graph_.replaceAllUses(op->result(), op->operands()[0].value);
      graph_.erase(op);
    }
    return static_cast<int64_t>(copies.size());
  }

private:
  /// A copy of an inner value, of its layout, neither of which leaves the graph. (A copy of what the caller
  /// holds protects from what the caller does with it before the backward.)
  bool isPlainCopy(const ir::Op &op) const {
    if (!op.isCall("aten.clone") || graph_.isOpaque(op) || !op.operands()[0].isValue())
      return false;
    const ir::Value *from = op.operands()[0].value, *copy = op.result();
    return from->type == copy->type && !aliases_.base(from)->isDeclared() && !leaves(from) && !leaves(copy);
  }

  bool leaves(const ir::Value *value) const { return seen_.contains(aliases_.base(value)); }

  ir::Graph &graph_;
  const ir::AliasInfo aliases_;
  std::unordered_set<const ir::Value *> seen_;
};

} // namespace

Changed dropCopies(ir::Graph &graph, PassContext &context) {
  const int64_t dropped = CopyDropper(graph).run();
  context.statistics["copies dropped"] += dropped;
  return Changed(dropped > 0);
}

} // namespace graphopt::passes
