// Functional form: no value changes after its definition.
//
// One walk in program order. A write becomes an isolated region on a copy of the written tensor's base, in
// which the views that the operator reads and writes of that memory are taken again on the copy; what it
// yields is the new version:
//
//   %v = aten.select.int(&%h)            %h.1 = update (%h, %y) {
//   aten.add_.Tensor(&mut %v, %y)   =>     %c = aten.clone(%h)
//                                          %v.1 = aten.select.int(&%c)
//                                          aten.add_.Tensor(&mut %v.1, %y)
//                                          yield %c
//                                        }
//
// Views of a written base are taken again on the new version when they are next used. The caller's tensors
// get their last version at the end (writeback), after which returned views of them are taken on the tensors
// themselves. A clone and a chain of views, and never as_strided_scatter: the operator then runs with the
// strides, the autograd history and the overlaps it has in eager, because they are made by the same
// operators.
#include "passes/pass_list.h"

#include "ir/dim_list.h"
#include "ir/effects.h"
#include "passes/density.h"
#include "passes/families.h"
#include "passes/regions.h"
#include "passes/write_rules.h"

#include <algorithm>

namespace graphopt::passes {
namespace {

/// A tensor that the caller (or the program) still holds after the call; constants are made anew by each
/// call.
bool isCallersMemory(const ir::Value *base) {
  using Kind = ir::Value::Kind;
  return base->isDeclared() && base->kind != Kind::Const && base->kind != Kind::HostVal;
}

class Functionalizer {
public:
  Functionalizer(ir::Graph &graph, const ir::OpCatalog *catalog)
      : graph_(graph), families_(graph), rules_(graph, families_.aliases(), catalog) {}

  void run() {
    for (ir::Op *op : graph_.body().ops())
      visit(op);
    graph_.form = ir::Form::Functional;
  }

  int64_t updates = 0, writebacks = 0;
  int64_t viewsRemade() const {
    int64_t count = families_.viewsRemade();
    for (const auto &[base, replay] : onCaller_)
      count += replay.stepsMade();
    return count;
  }

private:
  const ir::AliasInfo &aliases() const { return families_.aliases(); }

  void visit(ir::Op *op) {
    markHiddenWrites(op);
    if (op->kind == ir::Op::Kind::Return)
      return finish(op);
    if (op->writesAny()) {
      rules_.check(*op);
      return makeUpdate(op);
    }
    op->setOperands(mapOperands(
        op->operands(), [&](const ir::Operand &operand) { return families_.fresh(operand.value, op); }));
    families_.note(*op);
    for (ir::Value *view : op->results())
      if (ir::Value *base = baseOf(view); isCallersMemory(base) && !families_.isWritten(base))
        onCaller(base).note(view); // stands on the caller's tensor already
  }

  /// Batch norm's running statistics: the schema is silent, aten.def is not.
  void markHiddenWrites(ir::Op *op) {
    for (size_t position : ir::hiddenWrites(*op)) {
      ir::Operand operand = op->operands()[position];
      operand.mark = ir::Mark::Write;
      op->setOperand(position, operand);
    }
  }

  // ---- writes

  /// The region under construction.
  struct Region {
    ir::Op *update;
    ir::Op *yield;
    std::vector<ir::Operand> yields;
    std::vector<ir::Value *> bases;                       // written, in operand order
    std::unordered_map<const ir::Value *, Replay> onCopy; // base -> its views on the copy
  };

  void makeUpdate(ir::Op *op) {
    Region region;
    region.update = graph_.insertBefore(op, ir::Op::Kind::Update, "", {});
    ir::Block &body = graph_.makeBody(region.update);
    region.yield = graph_.append(body, ir::Op::Kind::Yield, "", {});
    region.yield->state = op->state;
    const std::vector<ir::Value *> results = addResults(*op, region);
    for (ir::Value *base : region.bases)
      copyBase(base, *op, region);
    moveInto(op, region);
    for (ir::Value *base : region.bases)
      region.yields.push_back(ir::Operand::of(region.onCopy.at(base).get(base, region.yield)));
    region.yield->setOperands(std::move(region.yields));
    region.update->setOperands(capturesOf(body));
    for (size_t i = 0; i < results.size(); ++i)
      families_.setVersion(i < op->results().size() ? op->result(i) : region.bases[i - op->results().size()],
                           results[i]);
    ++updates;
  }

  /// The update gives what the operator gives, then the new versions. The operator's own names stay outside.
  std::vector<ir::Value *> addResults(ir::Op &op, Region &region) {
    std::vector<ir::Value *> results;
    for (ir::Value *result : op.results()) {
      results.push_back(graph_.addResult(region.update, result->name, result->type));
      graph_.exchangeNames(result, results.back());
      userNames_[result] = results.back()->name;
    }
    for (ir::Value *value : writtenValues(op)) {
      ir::Value *base = baseOf(value);
      if (std::find(region.bases.begin(), region.bases.end(), base) == region.bases.end())
        region.bases.push_back(base);
    }
    for (const ir::Value *base : region.bases) {
      ir::Type type = base->type;
      type.grad = false; // said of declarations only
      auto named = userNames_.find(base);
      const std::string &name = named == userNames_.end() ? base->name : named->second;
      results.push_back(graph_.addResult(region.update, name, std::move(type)));
    }
    return results;
  }

  ir::Value *baseOf(const ir::Value *value) const { return graph_.find(aliases().base(value)->name); }

  Replay &onCaller(ir::Value *base) {
    return onCaller_.try_emplace(base, graph_, aliases(), base, base).first->second;
  }

  /// A copy of the newest version with the strides of the base.
  void copyBase(ir::Value *base, const ir::Op &op, Region &region) {
    ir::Value *newest = families_.fresh(base, region.update);
    ir::Type type = newest->type;
    type.grad = false;
    const bool isDense = densityOf(type, graph_.syms) == Density::Dense;
    const uint32_t state = stateOfCopy(op);
    ir::Op *make = isDense ? insertCopy(region, "aten.clone", {ir::Operand::of(newest)}, state)
                           : insertCopy(region, "aten.empty_strided", {}, state);
    if (!isDense)
      make->attrs = stridedAttrs(type);
    ir::Value *copy = graph_.addResult(make, "c", type);
    if (!isDense)
      insertCopy(region, "aten.copy_", {ir::Operand::of(copy, ir::Mark::Write), ir::Operand::of(newest)},
                 state);
    region.onCopy.emplace(base, Replay(graph_, aliases(), base, copy));
  }

  ir::Op *insertCopy(Region &region, const char *name, std::vector<ir::Operand> operands, uint32_t state) {
    ir::Op *op = graph_.insertBefore(region.yield, ir::Op::Kind::Call, name, std::move(operands));
    op->state = state;
    return op;
  }

  std::vector<ir::NamedAttr> stridedAttrs(const ir::Type &type) const {
    std::vector<ir::NamedAttr> attrs = {{"size", ir::dimList(type.sizes)},
                                        {"stride", ir::dimList(type.stridesOrContiguous())},
                                        {"dtype", ir::Attr::word(std::string(ir::dtypeName(type.dtype)))}};
    const ir::Device device = type.device.value_or(graph_.device);
    if (!device.isCpu())
      attrs.push_back({"device", ir::Attr::word(ir::toString(device))});
    return attrs;
  }

  /// The copy is made with gradients on whatever the write ran under: a write under no_grad, or through a
  /// detached alias, leaves the history of the tensor as it was.
  uint32_t stateOfCopy(const ir::Op &op) {
    ir::OpState state = graph_.states[op.state];
    std::erase_if(state.ambient,
                  [](const ir::NamedAttr &a) { return a.name == "grad" && a.value.isWord("off"); });
    return graph_.intern(state);
  }

  /// Moves the operator into the region; what it reads of the written memory is read from the copy.
  void moveInto(ir::Op *op, Region &region) {
    auto inside = [&](const ir::Operand &operand) {
      auto copy = region.onCopy.find(aliases().base(operand.value));
      return copy != region.onCopy.end() ? copy->second.get(operand.value, op)
                                         : families_.fresh(operand.value, region.update);
    };
    graph_.moveBefore(op, region.yield);
    op->setOperands(mapOperands(op->operands(), inside));
    for (ir::Value *result : op->results())
      region.yields.push_back(ir::Operand::of(result));
  }

  // ---- the end

  /// Returned views first, then the write-backs: all computation stands before the commit. A returned view of
  /// the caller's tensor is rooted at the tensor itself, so after the commit it shows the new contents.
  void finish(ir::Op *last) {
    last->setOperands(returned(last->operands(), last));
    for (ir::Value *value : graph_.declarations()) {
      if (!isCallersMemory(value) || !families_.isWritten(value))
        continue;
      graph_.insertBefore(last, ir::Op::Kind::Writeback, "",
                          {ir::Operand::of(value), ir::Operand::of(families_.fresh(value, last))});
      ++writebacks;
    }
  }

  std::vector<ir::Operand> returned(std::vector<ir::Operand> operands, ir::Op *last) {
    for (ir::Operand &operand : operands) {
      if (operand.kind == ir::Operand::Kind::List)
        operand.items = returned(std::move(operand.items), last);
      else if (operand.kind == ir::Operand::Kind::Value)
        operand = returnedValue(operand, last);
    }
    return operands;
  }

  /// The caller gets his own tensor, or a view of it; else a value of this call.
  ir::Operand returnedValue(ir::Operand operand, ir::Op *last) {
    ir::Value *value = operand.value;
    ir::Value *base = baseOf(value);
    if (isCallersMemory(base) && value->type.isTensor()) {
      ir::Value *own = families_.isWritten(base) ? onCaller(base).get(value, last) : value;
      return ir::Operand::of(own, ir::Mark::Alias);
    }
    if (base->isDeclared() && base->type.isTensor() && !families_.isWritten(base))
      giveCopy(base, last);
    operand.value = families_.fresh(value, last);
    return operand;
  }

  /// The program makes the constant in each call, so the caller may do with it what he likes.
  void giveCopy(ir::Value *constant, ir::Op *last) {
    ir::Op *copy = graph_.insertBefore(last, ir::Op::Kind::Call, "aten.clone", {ir::Operand::of(constant)},
                                       {}, {{constant->name, constant->type}});
    families_.setVersion(constant, copy->result());
  }

  ir::Graph &graph_;
  Families families_;
  const WriteRules rules_;
  std::unordered_map<const ir::Value *, std::string> userNames_; // of results that moved into a region
  std::unordered_map<const ir::Value *, Replay> onCaller_; // written declarations -> returned views of them
};

} // namespace

Changed functionalize(ir::Graph &graph, PassContext &context) {
  if (graph.form == ir::Form::Functional)
    return Changed::No;
  Functionalizer functionalizer(graph, context.catalog);
  functionalizer.run();
  context.statistics["writes turned into updates"] += functionalizer.updates;
  context.statistics["views taken again"] += functionalizer.viewsRemade();
  context.statistics["write-backs"] += functionalizer.writebacks;
  return Changed::Yes;
}

} // namespace graphopt::passes
