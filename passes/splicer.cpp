// A piece's operators keep their order; its constants are declared once in the target.
#include "passes/splicer.h"

namespace graphopt::passes {

ir::Value *Splicer::constant(const ir::Value &value) {
  ir::Value *&known = constants_[ir::toString(value.type) + " " + ir::toString(value.content)];
  if (!known) {
    known = graph_.declare(ir::Value::Kind::Const, graph_.freshName("k"), value.type);
    known->content = value.content;
  }
  return known;
}

void Splicer::splice(const ir::Graph &piece, ir::Op *before, uint32_t state, ir::ValueMap &map) {
  for (const ir::Value *value : piece.declared(ir::Value::Kind::Const))
    map[value] = constant(*value);
  for (const auto &op : piece.body()) {
    if (op->kind == ir::Op::Kind::Return)
      return;
    ir::Op *copy = ir::copyOp(graph_, graph_.body(), before, *op, map);
    copy->state = state;
    if (copy->body())
      for (const auto &inner : *copy->body())
        inner->state = state;
  }
}

} // namespace graphopt::passes
