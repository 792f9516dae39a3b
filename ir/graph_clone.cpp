// Deep copies of operators, and of a whole graph: the same texts, names and places over new values and ops.
#include "ir/splice.h"

namespace graphopt::ir {

std::vector<Operand> mapped(std::vector<Operand> operands, const ValueMap &map) {
  for (Operand &operand : operands) {
    if (operand.kind == Operand::Kind::Value)
      operand.value = map.at(operand.value);
    else if (operand.kind == Operand::Kind::List)
      operand.items = mapped(std::move(operand.items), map);
  }
  return operands;
}

Op *copyOp(Graph &to, Block &block, Op *before, const Op &op, ValueMap &map) {
  std::vector<Operand> operands = mapped(op.operands(), map);
  Op *copy = before ? to.insertBefore(before, op.kind, op.name, std::move(operands), op.attrs)
                    : to.append(block, op.kind, op.name, std::move(operands), op.attrs);
  copy->groupKind = op.groupKind;
  copy->number = op.number;
  copy->loc = op.loc;
  if (op.body())
    for (const auto &inner : *op.body())
      copyOp(to, to.makeBody(copy), nullptr, *inner, map);
  for (const Value *result : op.results()) {
    Value *value = to.addResult(copy, result->name, result->type);
    value->loc = result->loc;
    map[result] = value;
  }
  return copy;
}

namespace {

/// The states of a copied operator and of those in its body: the same numbers, for graphs that share a table.
void copyStates(Op &copy, const Op &op) {
  copy.state = op.state;
  if (!op.body())
    return;
  auto inner = copy.body()->begin();
  for (const auto &from : *op.body())
    copyStates(**inner++, *from);
}

} // namespace

Op *copyOpWithStates(Graph &to, Block &block, const Op &op, ValueMap &map) {
  Op *copy = copyOp(to, block, nullptr, op, map);
  copyStates(*copy, op);
  return copy;
}

Graph Graph::clone() const {
  Graph copy(name);
  copy.version = version;
  copy.stage = stage;
  copy.form = form;
  copy.device = device;
  copy.settings = settings;
  copy.syms = syms;
  copy.states = states;
  copy.file = file;
  ValueMap map;
  for (const Value *value : declarations_) {
    Value *declared = copy.declare(value->kind, value->name, value->type);
    declared->content = value->content;
    declared->contentHash = value->contentHash;
    declared->loc = value->loc;
    map[value] = declared;
  }
  copy.guards = guards;
  for (Guard &guard : copy.guards)
    guard.operands = mapped(std::move(guard.operands), map);
  for (const auto &op : *body_)
    copyOpWithStates(copy, copy.body(), *op, map);
  return copy;
}

} // namespace graphopt::ir
