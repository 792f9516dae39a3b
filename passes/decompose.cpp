// From the lowered stage to the core stage: every operator with a rule becomes prims; anchors (GEMM,
// convolution, attention, sorts ...), opaque calls and draws stay.
//
// Views. A view op whose results are only returned stays a view, since the caller must see one. All others
// become prims, which move elements by logical index and alias nothing; their results keep the view's type,
// strides included, so whoever reads them sees the layout of eager. A view that is both used and returned is
// made twice. A view without a rule becomes its copying variant (aten.unfold -> aten.unfold_copy), or is
// copied at once; either is laid out as the view was.
//
// Updates. A write whose functional operator has a rule becomes prims as well (inline_update.h). Other
// regions stay: they are opaque operators that happen to work in place.
//
// An operator that a rule cannot take apart here (a dtype without prims, sizes that cannot be shown to fit)
// stays as it is; --stats counts these.
#include "passes/pass_list.h"

#include "ir/op_catalog.h"
#include "passes/core_rules.h"
#include "passes/inline_update.h"

#include <algorithm>
#include <fmt/format.h>
#include <graphopt/error.h>
#include <unordered_map>
#include <unordered_set>

namespace graphopt::passes {
namespace {
using ir::Op;
using ir::Operand;
using ir::Value;

bool aliases(const Op &op, const Value *value) {
  bool found = false;
  op.forEachValue([&](const Operand &o) { found |= o.value == value && o.mark == ir::Mark::Alias; });
  return found;
}

bool isView(const Op &op) {
  bool found = false;
  op.forEachValue([&](const Operand &o) { found |= o.mark == ir::Mark::Alias; });
  return op.kind == Op::Kind::Call && found;
}

class Decomposer {
public:
  Decomposer(ir::Graph &graph, PassContext &context) : graph_(graph), context_(context) {}

  void run() {
    findReturnedViews();
    for (Op *op : graph_.body().ops()) { // a copy of the list, and each visit may erase its operator
      if (op->kind == Op::Kind::Call)
        visit(*op);
      else if (op->kind == Op::Kind::Update && !graph_.isOpaque(*op))
        visitUpdate(*op);
    }
    graph_.stage = ir::Stage::Core;
  }

private:
  /// Views with a use in the return, or in a view that has one. From the last to the first, so that users are
  /// known.
  void findReturnedViews() {
    const std::vector<Op *> ops = graph_.body().ops();
    for (auto op = ops.rbegin(); op != ops.rend(); ++op)
      if (isView(**op) && hasUse(**op, &Decomposer::isForReturn))
        returnedViews_.insert(*op);
    for (auto op = ops.rbegin(); op != ops.rend(); ++op)
      if (returnedViews_.contains(*op) && hasUse(**op, &Decomposer::isInner))
        usedViews_.insert(*op);
    for (Op *op : ops)
      if (usedViews_.contains(op))
        makeTwice(*op);
  }

  bool hasUse(const Op &op, bool (Decomposer::*is)(const Op &, const Value *) const) const {
    for (const Value *result : op.results())
      for (const Op *user : result->users())
        if ((this->*is)(*user, result))
          return true;
    return false;
  }

  /// Whether this use wants the view itself.
  bool isForReturn(const Op &user, const Value *value) const {
    return user.kind == Op::Kind::Return || (returnedViews_.contains(&user) && aliases(user, value));
  }

  /// Whether it wants its numbers, or is a view that somebody wants these of.
  bool isInner(const Op &user, const Value *value) const {
    return !isForReturn(user, value) || usedViews_.contains(&user);
  }

  /// The view once more, for inner uses; on the second of the view before, where that is made twice as well.
  void makeTwice(Op &op) {
    std::vector<ir::Graph::ResultSpec> specs;
    for (const Value *result : op.results())
      specs.push_back({result->name, result->type});
    Op *twin = graph_.insertBefore(&op, op.kind, op.name, op.operands(), op.attrs, specs);
    twin->state = op.state;
    op.forEachValue([&](const Operand &operand) {
      if (const auto found = twins_.find(operand.value); found != twins_.end())
        twin->replaceUses(operand.value, found->second);
    });
    for (size_t i = 0; i < op.results().size(); ++i) {
      twins_[op.result(i)] = twin->result(i);
      const std::vector<Op *> users = op.result(i)->users(); // a copy: replacing changes it
      for (Op *user : users)
        if (!isForReturn(*user, op.result(i)))
          user->replaceUses(op.result(i), twin->result(i));
    }
  }

  void visit(Op &op) {
    if (returnedViews_.contains(&op))
      return;
    const CoreRule *rule = isView(op) || !graph_.isOpaque(op) ? findCoreRule(op.name) : nullptr;
    if (rule && replaceByRule(*rule, op))
      return;
    if (isView(op))
      replaceByCopy(op);
  }

  void visitUpdate(Op &op) {
    const auto values = inlineUpdate(op, graph_);
    if (!values) {
      ++context_.statistics["updates kept"];
      return;
    }
    ++context_.statistics["updates decomposed"];
    replace(op, *values);
  }

  bool replaceByRule(const CoreRule &rule, Op &op) {
    const auto outcome = applyCoreRule(rule, op, graph_);
    if (const auto *reason = std::get_if<std::string>(&outcome)) {
      ++context_.statistics[fmt::format("kept {}: {}", op.name, *reason)];
      return false;
    }
    ++context_.statistics["operators decomposed"];
    replace(op, std::get<std::vector<Value *>>(outcome));
    return true;
  }

  /// Everybody reads the new values. The op goes, unless some of its results have none.
  void replace(Op &op, const std::vector<Value *> &values) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (!values[i])
        continue;
      graph_.replaceAllUses(op.result(i), values[i]);
      if (isNew(*values[i], op))
        graph_.exchangeNames(op.result(i), values[i]);
    }
    if (std::none_of(op.results().begin(), op.results().end(),
                     [](const Value *result) { return result->hasUses(); }))
      graph_.erase(&op);
  }

  /// Made for this op rather than one of its operands, which keeps its name.
  static bool isNew(const Value &value, const Op &op) { return !op.usesValue(&value); }

  /// The copying variant, or the view itself for nothing but a copy of it: no write can come between, since
  /// write-backs follow all computation.
  void replaceByCopy(Op &op) {
    ir::OpName name = ir::splitOpName(op.name);
    name.base += "_copy";
    const std::string copyName = ir::joinOpName(name);
    const bool hasVariant = op.results().size() == 1 && context_.catalog && context_.catalog->find(copyName);
    std::vector<Operand> operands = op.operands();
    for (Operand &operand : operands)
      operand.mark = ir::Mark::None;
    std::vector<ir::Graph::ResultSpec> specs;
    for (const Value *result : op.results())
      specs.push_back({result->name, hasVariant ? denseType(result->type) : result->type});
    Op *made = graph_.insertBefore(&op, Op::Kind::Call, hasVariant ? copyName : op.name, std::move(operands),
                                   op.attrs, specs);
    made->state = op.state;
    std::vector<Value *> values;
    for (size_t i = 0; i < op.results().size(); ++i)
      values.push_back(hasVariant && plainType(op.result(i)->type) == made->result(i)->type
                           ? made->result(i)
                           : copyOf(made->result(i), op, i));
    replace(op, values);
  }

  Value *copyOf(Value *value, Op &op, size_t i) {
    const ir::Type type = plainType(op.result(i)->type);
    const bool isLazy = value->type.conj || value->type.neg; // which prims do not read
    Op *copy = graph_.insertBefore(&op, Op::Kind::Call, isLazy ? "aten.clone" : "prim.copy",
                                   {Operand::of(value)}, {}, {{op.result(i)->name, type}});
    return copy->result();
  }

  /// A copy has its own numbers, not conjugates of others.
  static ir::Type plainType(ir::Type type) {
    type.conj = type.neg = false;
    return type;
  }
  static ir::Type denseType(const ir::Type &type) {
    ir::Type dense = plainType(type);
    dense.strides.reset();
    return dense;
  }

  ir::Graph &graph_;
  PassContext &context_;
  std::unordered_set<const Op *> returnedViews_,
      usedViews_;                                    // membership only; the second are among the first
  std::unordered_map<const Value *, Value *> twins_; // of results of views that are made twice
};
} // namespace

Changed decompose(ir::Graph &graph, PassContext &context) {
  Decomposer(graph, context).run();
  return Changed::Yes;
}

} // namespace graphopt::passes
