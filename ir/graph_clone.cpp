// A deep copy of a graph: the same texts, names and places over new values and ops.
#include "ir/graph.h"

#include <unordered_map>

namespace graphopt::ir {

namespace {
using ValueMap = std::unordered_map<const Value *, Value *>;

std::vector<Operand> mapped(std::vector<Operand> operands, const ValueMap &map) {
  for (Operand &operand : operands) {
    if (operand.kind == Operand::Kind::Value)
      operand.value = map.at(operand.value);
    else if (operand.kind == Operand::Kind::List)
      operand.items = mapped(std::move(operand.items), map);
  }
  return operands;
}

void cloneBlock(Graph &to, Block &target, const Block &source, ValueMap &map) {
  for (const auto &op : source) {
    Op *copy = to.append(target, op->kind, op->name, mapped(op->operands(), map), op->attrs);
    copy->groupKind = op->groupKind;
    copy->number = op->number;
    copy->state = op->state;
    copy->loc = op->loc;
    if (op->body())
      cloneBlock(to, to.makeBody(copy), *op->body(), map);
    for (const Value *result : op->results()) {
      Value *value = to.addResult(copy, result->name, result->type);
      value->loc = result->loc;
      map[result] = value;
    }
  }
}
} // namespace

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
  cloneBlock(copy, copy.body(), *body_, map);
  return copy;
}

} // namespace graphopt::ir
