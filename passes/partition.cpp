// Every forward value is a pipe as wide as its bytes. What must be computed in the forward pours in without
// limit, what the backward reads draws without limit, and an operator that may run again lets its operands
// flow into its results: the narrowest cut is what to keep (as Chen et al. 2016 trade memory for computation,
// with the choice made by a minimum cut).
#include "passes/partition.h"

#include "ir/alias.h"
#include "ir/effects.h"
#include "ir/op_table.h"
#include "ir/splice.h"
#include "passes/fixed_sizes.h"
#include "passes/min_cut.h"
#include "passes/pass_list.h"
#include "passes/redraw.h"

#include <algorithm>
#include <graphopt/error.h>
#include <unordered_set>

namespace graphopt::passes {
namespace {

using ir::Op;
using ir::Value;
using ValueSet = std::unordered_set<const Value *>;

std::vector<bool> outputsOf(const ir::Graph &joint) {
  std::vector<bool> outputs;
  for (const ir::NamedAttr &setting : joint.settings)
    if (setting.name == "outputs" && setting.value.isList()) {
      for (const ir::Attr &item : setting.value.items())
        outputs.push_back(item.isWord("undefined") || item.asBool());
      return outputs;
    }
  userError("graph @" + joint.name + " is no joint graph: make one with lower{joint=on}");
}

/// 0 where sizes are not known.
int64_t bytesOf(const ir::Type &type, const std::vector<ir::SymValue> &sizes = {}) {
  if (!type.isTensor())
    return 0;
  const std::optional<int64_t> elements = ir::evaluate(type.numel(), sizes);
  return elements ? std::max<int64_t>(*elements, 0) * ir::itemSize(type.dtype) : 0;
}

bool isViewOp(const Op &op) {
  bool isView = false;
  op.forEachValue([&](const ir::Operand &operand) { isView |= operand.mark == ir::Mark::Alias; });
  return isView;
}

class Partitioner {
public:
  Partitioner(const ir::Graph &joint, const ir::OpCatalog *catalog, const PartitionOptions &options)
      : joint_(joint), catalog_(catalog), options_(options), outputs_(outputsOf(joint).size()),
        sizes_(usualSizes(joint.syms)) {
    for (const auto &op : joint.body())
      if (op->kind == Op::Kind::Writeback)
        written_.insert(op->operands()[0].value);
    splitOps();
  }

  Partitioned run() {
    if (options_.recompute)
      findShownSaved();
    choose();
    findRecomputed();
    Partitioned result;
    result.outputs = outputsOf(joint_);
    listResiduals(result);
    result.forward = makeForward(result);
    result.backward = makeBackward(result);
    result.recomputed = recomputed_;
    return result;
  }

private:
  std::vector<ir::Operand> returned(size_t from, size_t to) const {
    const std::vector<ir::Operand> &all = joint_.returnOp()->operands();
    return {all.begin() + static_cast<ptrdiff_t>(from), all.begin() + static_cast<ptrdiff_t>(to)};
  }
  std::vector<ir::Operand> gradients() const {
    return returned(outputs_, joint_.returnOp()->operands().size());
  }

  /// Of what others see, what is kept when nothing runs again: autograd saves that too, and minds when it is
  /// written before the backward. The program may write all else, and expects its gradients to be there.
  void findShownSaved() {
    Partitioner all(joint_, catalog_, {.recompute = false});
    all.choose();
    const ir::AliasInfo aliases(joint_);
    ValueSet shown; // where their memory begins
    for (const ir::Operand &operand : returned(0, outputs_))
      if (operand.isValue())
        shown.insert(aliases.base(operand.value));
    for (const Value *value : joint_.declarations())
      if (value->content.isNone() && value->contentHash.empty())
        shown.insert(value);
    const auto add = [&](const Value *value) {
      if (shown.contains(aliases.base(value)) && !all.kept_.contains(value))
        mayBeWritten_.insert(value);
    };
    std::ranges::for_each(joint_.declarations(), add);
    for (const auto &op : joint_.body())
      std::ranges::for_each(op->results(), add);
  }

  // ---- which operators follow the cotangents

  void splitOps() {
    ValueSet late;
    for (const Value *value : joint_.declared(Value::Kind::Cotangent))
      late.insert(value);
    for (const auto &op : joint_.body()) {
      bool isLate = false;
      forEachRead(*op, [&](const Value *value) { isLate |= late.contains(value); });
      if (!op->computes())
        continue;
      if (isLate)
        late_.insert(op.get());
      for (const Value *result : op->results())
        if (isLate)
          late.insert(result);
    }
    for (const auto &op : joint_.body())
      if (late_.contains(op.get()))
        forEachRead(*op, [&](const Value *value) { need(value, late); });
    for (const ir::Operand &operand : gradients())
      if (operand.isValue())
        need(operand.value, late);
  }

  void need(const Value *value, const ValueSet &late) {
    if (!late.contains(value) && seen_.insert(value).second)
      needed_.push_back(value);
  }

  template <class F> static void forEachRead(const Op &op, F &&f) {
    op.forEachValue([&](const ir::Operand &operand) { f(operand.value); });
  }

  /// What a second run of the op reads.
  template <class F> void forEachSource(const Op &op, F &&f) const {
    if (!isForDraws(op))
      forEachRead(op, f);
  }

  // ---- what to keep

  bool mayRunAgain(const Op &op) const {
    if (mayDrawAgain(op))
      return true;
    if (op.kind != Op::Kind::Call || joint_.isOpaque(op) || !ir::isRemovable(op, catalog_))
      return false;
    if (isViewOp(op))
      return true;
    if (!options_.recompute)
      return false;
    if (!ir::isMergeable(op, catalog_))
      return isForDraws(op);
    const ir::AtenRow *row = ir::findAten(op.name);
    const ir::OpInfo *info = catalog_ ? catalog_->find(op.name) : nullptr;
    const bool isUnknown = !row || row->recompute == ir::RecomputeClass::Unknown;
    return isUnknown ? info && info->pointwise : row->recompute == ir::RecomputeClass::Cheap;
  }

  bool mayDrawAgain(const Op &op) const { return options_.recompute && mayRedraw(joint_, op, catalog_); }

  /// Memory that draws fill: it costs nothing, its contents are nobody's, and of its operands only the sizes
  /// matter, which its type has.
  bool isForDraws(const Op &op) const {
    const auto isDraw = [&](const Op *user) {
      const Op *region = user->parent()->owner();
      return mayDrawAgain(region ? *region : *user);
    };
    return op.results().size() == 1 && ir::effectsOf(op, catalog_).uninitialized &&
           std::ranges::all_of(op.result()->users(), isDraw);
  }

  void choose() {
    for (const Value *value : needed_)
      reach(value);
    FlowNetwork network(nextNode_);
    for (const auto &[draw, node] : drawNodes_) {
      network.connect(kSource, node, FlowNetwork::kInfinite);
      network.connect(node, node + 1, bytesOf(stateType(*draw)) + 1);
    }
    for (const auto &[value, node] : nodes_) {
      network.connect(node, node + 1, widthOf(*value));
      connectSources(network, *value, node);
    }
    for (const Value *value : needed_)
      network.connect(nodes_.at(value) + 1, kSink, FlowNetwork::kInfinite);
    const std::vector<bool> isSource = network.sourceSide(kSource, kSink);
    for (const auto &[value, node] : nodes_)
      if (isSource[node] && !isSource[node + 1])
        kept_.insert(value);
  }

  /// What a value is computed from, if that may happen again.
  void connectSources(FlowNetwork &network, const Value &value, size_t node) const {
    if (value.isDeclared() || !mayRunAgain(*value.def))
      return network.connect(kSource, node, FlowNetwork::kInfinite);
    forEachSource(*value.def, [&](const Value *operand) {
      network.connect(nodes_.at(operand) + 1, node, FlowNetwork::kInfinite);
    });
    if (const auto draw = drawNodes_.find(value.def); draw != drawNodes_.end())
      network.connect(draw->second + 1, node, FlowNetwork::kInfinite);
  }

  /// The value and everything that it could be computed from again.
  void reach(const Value *from) {
    std::vector<const Value *> open = {from};
    while (!open.empty()) {
      const Value *value = open.back();
      open.pop_back();
      if (!number(nodes_, value) || value->isDeclared() || !mayRunAgain(*value->def))
        continue;
      forEachSource(*value->def, [&](const Value *operand) { open.push_back(operand); });
      if (mayDrawAgain(*value->def))
        number(drawNodes_, static_cast<const Op *>(value->def));
    }
  }

  /// Two nodes: the way in, and the way out. False: it has them.
  template <class What> bool number(std::unordered_map<What, size_t> &nodes, What what) {
    const bool isNew = nodes.try_emplace(what, nextNode_).second;
    nextNode_ += isNew ? 2 : 0;
    return isNew;
  }

  ir::Type stateType(const Op &draw) const {
    return rngStateType(joint_, devicesOfDraws(joint_, draw).at(0));
  }

  /// What others hold anyway costs nothing, unless it has to be copied; but nothing is without cost, so that
  /// no cut is wider than needed.
  int64_t widthOf(const Value &value) const {
    if (mayBeWritten_.contains(&value))
      return FlowNetwork::kInfinite;
    const bool isHeld = value.isDeclared() && value.kind != Value::Kind::Input && !written_.contains(&value);
    return isHeld ? 1 : bytesOf(value.type, sizes_) + 1;
  }

  /// Before its draw's results.
  void addState(const Op &draw, Partitioned &result) {
    std::string name = draw.result()->name + ".rng";
    while (joint_.find(name))
      name += "_";
    states_[&draw] = name;
    const ir::Type type = stateType(draw);
    result.residuals.push_back(
        {name, type, bytesOf(type), joint_.states[draw.state].scope, std::string(ir::kRngState), false});
    result.bytes += bytesOf(type);
  }

  void listResiduals(Partitioned &result) {
    auto add = [&](const Value *value) {
      if (!kept_.contains(value))
        return;
      Residual residual{value->name,
                        value->type,
                        bytesOf(value->type),
                        "",
                        std::string(toString(value->kind)),
                        value->isDeclared() && !written_.contains(value)};
      residual.type.grad = false;
      if (!residual.isDeclared)
        result.bytes += residual.bytes;
      if (value->isResult()) {
        residual.scope = joint_.states[value->def->state].scope;
        residual.source = value->def->kind == Op::Kind::Call ? value->def->name : "update";
      }
      result.residuals.push_back(std::move(residual));
    };
    for (const auto &op : joint_.body()) {
      if (again_.contains(op.get()) && mayDrawAgain(*op))
        addState(*op, result);
      for (const Value *value : op->results())
        add(value);
    }
    for (const Value *value : joint_.declarations())
      add(value);
  }

  // ---- the two graphs

  /// Whatever they do: an opaque operator in the backward may read data, which keeps it from being dead code.
  void eraseLate(ir::Graph &forward, const std::vector<Op *> &copies) const {
    const std::vector<Op *> own = joint_.body().ops();
    for (size_t i = own.size(); i-- > 0;)
      if (late_.contains(own[i]))
        forward.erase(copies[i]);
  }

  void insertStates(ir::Graph &forward) const {
    for (const auto &op : joint_.body())
      if (const auto state = states_.find(op.get()); state != states_.end())
        insertRngState(forward, forward.find(op->result()->name)->def, state->second,
                       devicesOfDraws(joint_, *op).at(0));
  }

  /// A declared value that the forward writes is kept as it was before.
  static Value *keptAsItIs(ir::Graph &forward, Value *value) {
    if (!value->isDeclared())
      return value;
    for (const auto &op : forward.body())
      if (op->kind == Op::Kind::Writeback) {
        ir::Type type = value->type;
        type.grad = false;
        return forward
            .insertBefore(op.get(), Op::Kind::Call, "aten.clone", {ir::Operand::of(value)}, {},
                          {{value->name, type}})
            ->result();
      }
    return value;
  }

  ir::Graph makeForward(const Partitioned &result) const {
    ir::Graph forward = joint_.clone();
    forward.name = joint_.name + ".fwd";
    std::erase_if(forward.settings, [](const ir::NamedAttr &setting) { return setting.name == "outputs"; });
    std::vector<ir::Operand> operands = forward.returnOp()->operands();
    operands.resize(outputs_);
    forward.returnOp()->setOperands(operands);
    const std::vector<Op *> copies = forward.body().ops(); // one for one
    insertStates(forward);
    eraseLate(forward, copies);
    for (const Residual &residual : result.residuals)
      if (!residual.isDeclared)
        operands.push_back(ir::Operand::of(keptAsItIs(forward, forward.find(residual.name))));
    forward.returnOp()->setOperands(std::move(operands));
    PassContext context;
    context.catalog = catalog_;
    dce(forward, context);
    for (Value *value : forward.declared(Value::Kind::Cotangent))
      forward.eraseDeclaration(value);
    return forward;
  }

  ir::Graph makeBackward(const Partitioned &result) {
    ir::Graph backward(joint_.name + ".bwd");
    backward.stage = joint_.stage;
    backward.form = joint_.form;
    backward.device = joint_.device;
    backward.settings = joint_.settings;
    std::erase_if(backward.settings, [](const ir::NamedAttr &setting) { return setting.name == "outputs"; });
    backward.syms = joint_.syms;
    backward.states = joint_.states;
    ir::ValueMap map;
    declareInputs(backward, result, map);
    for (const auto &op : joint_.body())
      if (late_.contains(op.get())) {
        forEachRead(*op, [&](const Value *value) { makeAgain(backward, value, map); });
        ir::copyOpWithStates(backward, backward.body(), *op, map);
      }
    for (const ir::Operand &operand : gradients())
      if (operand.isValue())
        makeAgain(backward, operand.value, map);
    std::vector<ir::Operand> operands;
    for (const ir::Operand &operand : gradients())
      operands.push_back(operand.isValue() ? ir::Operand::of(map.at(operand.value)) : ir::Operand::none());
    backward.append(backward.body(), Op::Kind::Return, "", std::move(operands));
    return backward;
  }

  /// Where it is first read, so that little of it is there at a time. Producers first.
  void makeAgain(ir::Graph &backward, const Value *value, ir::ValueMap &map) {
    std::vector<const Op *> open;
    const auto want = [&](const Value *read) {
      if (read->isResult() && again_.contains(read->def) && !map.contains(read))
        open.push_back(read->def);
    };
    want(value);
    while (!open.empty()) {
      const Op *op = open.back();
      const size_t known = open.size();
      forEachSource(*op, want);
      if (open.size() > known)
        continue;
      open.pop_back();
      if (again_.erase(op) > 0)
        runAgain(backward, *op, map);
    }
  }

  void runAgain(ir::Graph &backward, const Op &op, ir::ValueMap &map) const {
    if (const auto state = states_.find(&op); state != states_.end())
      appendRedraw(backward, op, backward.find(state->second), map);
    else if (isForDraws(op))
      map[op.result()] = appendEmpty(backward, op);
    else
      ir::copyOpWithStates(backward, backward.body(), op, map);
  }

  void declareInputs(ir::Graph &backward, const Partitioned &result, ir::ValueMap &map) {
    for (const Residual &residual : result.residuals) {
      const Value *value = joint_.find(residual.name);
      if (!value) { // a generator's state
        backward.declare(Value::Kind::Input, residual.name, residual.type);
        continue;
      }
      const bool isConstant = value->kind == Value::Kind::Const || value->kind == Value::Kind::HostVal;
      Value *input =
          backward.declare(isConstant ? value->kind : Value::Kind::Input, residual.name, residual.type);
      input->content = value->content;
      input->contentHash = value->contentHash;
      map[value] = input;
    }
    for (const Value *value : joint_.declared(Value::Kind::Cotangent))
      map[value] = backward.declare(Value::Kind::Cotangent, value->name, value->type);
  }

  void findRecomputed() {
    std::vector<const Value *> open = needed_;
    while (!open.empty()) {
      const Value *value = open.back();
      open.pop_back();
      if (kept_.contains(value) || !value->isResult() || !again_.insert(value->def).second)
        continue;
      recomputed_ += !isViewOp(*value->def);
      forEachSource(*value->def, [&](const Value *operand) { open.push_back(operand); });
    }
  }

  const ir::Graph &joint_;
  const ir::OpCatalog *catalog_;
  const PartitionOptions options_;
  const size_t outputs_;
  std::unordered_set<const Op *> late_;   // follow the cotangents
  std::unordered_set<const Op *> again_;  // run a second time
  std::vector<const Value *> needed_;     // forward values that late operators read, in order
  ValueSet seen_, kept_, written_;        // the last: declared values with a write-back
  ValueSet mayBeWritten_;                 // by the program, before the backward
  const std::vector<ir::SymValue> sizes_; // to weigh by
  static constexpr size_t kSource = 0, kSink = 1;
  size_t nextNode_ = 2;
  std::unordered_map<const Value *, size_t> nodes_;
  std::unordered_map<const Op *, size_t> drawNodes_;   // of the states that draws begin with
  std::unordered_map<const Op *, std::string> states_; // draws that run again, and the names of their states
  size_t recomputed_ = 0;
};

} // namespace

Partitioned partition(const ir::Graph &joint, const ir::OpCatalog *catalog, const PartitionOptions &options) {
  return Partitioner(joint, catalog, options).run();
}

} // namespace graphopt::passes
