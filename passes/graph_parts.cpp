// Values that cross from one part to the next are results of the one and inputs of the other.
#include "passes/graph_parts.h"

#include "ir/splice.h"
#include "passes/cast_uses.h"
#include "passes/regions.h"
#include "passes/sized_pieces.h"

#include <algorithm>
#include <fmt/format.h>
#include <graphopt/error.h>
#include <set>
#include <unordered_set>

namespace graphopt::passes {
namespace {

using ir::Op;
using ir::Value;

bool isConstant(const Value &value) {
  return value.kind == Value::Kind::Const || value.kind == Value::Kind::HostVal;
}

/// Whether one gradient reaches an operand of the unit, whatever it is made of: added to the gradient so far
/// as a whole.
bool addsOnce(const ir::BackwardPiece &piece, size_t operand) {
  const std::string soFar = fmt::format("s{}", operand);
  const ir::Operand &gradient = piece.graph.returnOp()->operands().at(operand);
  if (!gradient.isValue() || !gradient.value->isResult())
    return gradient.isValue() && gradient.value->name == soFar; // nothing was added
  const Op &last = *gradient.value->def;
  if (!last.isCall("aten.add.Tensor"))
    return false;
  return std::ranges::any_of(last.operands(), [&](const ir::Operand &term) {
    return term.isValue() && term.value->name == soFar && term.value->users().size() == 1;
  });
}

class Cutter {
public:
  Cutter(const ir::Graph &whole, const std::vector<bool> &requiresGrad, ir::PieceSource &pieces,
         const ir::OpCatalog *catalog)
      : whole_(whole), requiresGrad_(requiresGrad), pieces_(pieces), catalog_(catalog),
        needsGrad_(likelyNeedsGrad(whole)) {}

  std::vector<GraphPart> run() {
    numberOps();
    std::vector<GraphPart> parts;
    for (size_t part = 0; part < partCount_; ++part)
      parts.push_back(make(part));
    if (partCount_ == 1)
      return parts;
    checkWrites();
    for (size_t part = 0; part < partCount_; ++part)
      splitUses(part, parts[part]);
    return parts;
  }

private:
  // ---- where to cut

  /// Results with gradients, each with those that it is computed from.
  std::unordered_set<const Value *> innerResults() const {
    std::unordered_set<const Value *> ends, inner;
    const std::vector<ir::Operand> &results = whole_.returnOp()->operands();
    for (size_t i = 0; i < results.size(); ++i)
      if (results[i].isValue() && results[i].value->isResult() && requiresGrad_.at(i))
        ends.insert(results[i].value);
    std::unordered_map<const Value *, std::set<const Value *>> from;
    for (const auto &op : whole_.body()) {
      std::set<const Value *> before;
      op->forEachValue([&](const ir::Operand &operand) {
        if (auto known = from.find(operand.value); known != from.end())
          before.insert(known->second.begin(), known->second.end());
        if (ends.contains(operand.value))
          before.insert(operand.value);
      });
      for (const Value *result : op->results()) {
        if (ends.contains(result))
          inner.insert(before.begin(), before.end());
        if (!before.empty())
          from[result] = before;
      }
    }
    return inner;
  }

  void numberOps() {
    const std::unordered_set<const Value *> inner = innerResults();
    for (const auto &op : whole_.body()) {
      if (op->kind == Op::Kind::Writeback || op->kind == Op::Kind::Return)
        continue;
      partOf_[op.get()] = partCount_ - 1;
      if (std::ranges::any_of(op->results(), [&](const Value *result) { return inner.contains(result); }))
        ++partCount_;
    }
  }

  size_t partOf(const Value *value) const { return value->isResult() ? partOf_.at(value->def) : 0; }
  /// A write-back is of the part that made what it writes; everything that the return hands out, too.
  std::optional<size_t> partOf(const Op &op) const {
    if (auto known = partOf_.find(&op); known != partOf_.end())
      return known->second;
    if (op.kind == Op::Kind::Writeback)
      return partOf(op.operands()[1].value);
    return std::nullopt;
  }

  // ---- one part

  GraphPart make(size_t part) {
    GraphPart made{ir::Graph(partCount_ == 1 ? whole_.name : fmt::format("{}.{}", whole_.name, part)), {}, {}};
    ir::Graph &graph = made.graph;
    graph.stage = whole_.stage;
    graph.form = whole_.form;
    graph.device = whole_.device;
    graph.settings = whole_.settings;
    graph.syms = whole_.syms;
    graph.states = whole_.states;
    ir::ValueMap map;
    declareInputs(part, graph, map);
    for (const auto &op : whole_.body())
      if (partOf(*op) == part)
        ir::copyOpWithStates(graph, graph.body(), *op, map);
    std::vector<ir::Operand> returned;
    for (auto &[output, operand] : outputsOf(part)) {
      made.outputs.push_back(output);
      returned.push_back(operand);
    }
    graph.append(graph.body(), Op::Kind::Return, "", ir::mapped(std::move(returned), map));
    return made;
  }

  /// Everything that was declared is an input of a graph that stays whole: callers count on it.
  void declareInputs(size_t part, ir::Graph &graph, ir::ValueMap &map) const {
    const std::unordered_set<const Value *> read = readIn(part);
    for (const Value *value : whole_.declarations())
      if (partCount_ == 1 || read.contains(value))
        map[value] = declare(graph, *value, value->kind, value->type.grad);
    for (const auto &op : whole_.body())
      for (const Value *value : op->results())
        if (read.contains(value) && partOf(value) < part)
          map[value] = declare(graph, *value, Value::Kind::Input, needs(value));
  }

  static Value *declare(ir::Graph &graph, const Value &value, Value::Kind kind, bool grad) {
    ir::Type type = value.type;
    type.grad = grad;
    Value *input = graph.declare(kind, value.name, std::move(type));
    input->content = value.content;
    input->contentHash = value.contentHash;
    return input;
  }

  std::unordered_set<const Value *> readIn(size_t part) const {
    std::unordered_set<const Value *> read;
    const auto note = [&](const ir::Operand &operand) { read.insert(operand.value); };
    for (const auto &op : whole_.body())
      if (partOf(*op) == part)
        op->forEachValue(note);
    if (part == 0)
      for (const ir::Operand &operand : whole_.returnOp()->operands())
        if (operand.isValue() && operand.value->isDeclared())
          note(operand);
    return read;
  }

  /// Results of the whole first, then what later parts read.
  std::vector<std::pair<GraphPart::Output, ir::Operand>> outputsOf(size_t part) const {
    std::vector<std::pair<GraphPart::Output, ir::Operand>> outputs;
    std::unordered_set<const Value *> known;
    const std::vector<ir::Operand> &results = whole_.returnOp()->operands();
    for (size_t i = 0; i < results.size(); ++i) {
      const bool isHere = results[i].isValue() ? partOf(results[i].value) == part : part == 0;
      if (!isHere)
        continue;
      outputs.push_back({{results[i].isValue() ? results[i].value->name : "", i}, results[i]});
      if (results[i].isValue())
        known.insert(results[i].value);
    }
    for (const auto &op : whole_.body())
      for (const Value *value : op->results())
        if (partOf(value) == part && isReadAfter(part, value) && known.insert(value).second)
          outputs.push_back({{value->name, std::nullopt}, ir::Operand::of(const_cast<Value *>(value))});
    return outputs;
  }

  bool isReadAfter(size_t part, const Value *value) const {
    return std::ranges::any_of(value->users(),
                               [&](const Op *user) { return partOf(*user).value_or(part) > part; });
  }

  // ---- writes

  /// What an earlier part's backward reads must not change: autograd's error for it comes at backward.
  void checkWrites() const {
    for (const auto &op : whole_.body()) {
      if (op->kind != Op::Kind::Update)
        continue;
      const size_t part = partOf_.at(op.get());
      for (const Value *written : overwrittenBy(*op, catalog_)) {
        const bool isEarlier =
            (written->isResult() && partOf(written) < part) ||
            std::ranges::any_of(written->users(),
                                [&](const Op *user) { return partOf(*user).value_or(part) < part; });
        if (isEarlier)
          userError(fmt::format("'%{}' is written in place between two results that depend on one another",
                                written->name));
      }
    }
  }

  // ---- uses

  bool needs(const Value *value) const {
    const auto known = needsGrad_.find(value);
    return known != needsGrad_.end() ? known->second : value->isDeclared() && value->type.grad;
  }

  bool isResult(const Value *value) const {
    const std::vector<ir::Operand> &results = whole_.returnOp()->operands();
    return std::ranges::any_of(results, [&](const ir::Operand &result) { return result.value == value; });
  }

  /// Whether gradients from elsewhere may come before those of the part.
  bool othersComeFirst(size_t part, const Value *value) const {
    return (value->isResult() && isResult(value)) || isReadAfter(part, value);
  }

  void splitUses(size_t part, GraphPart &made) {
    for (Value *input : std::vector<Value *>(made.graph.declarations())) {
      const Value *value = whole_.find(input->name);
      if (isConstant(*value) || !needs(value) || !othersComeFirst(part, value))
        continue;
      std::vector<Op *> users; // of the part, in order
      for (Op *op : made.graph.body().ops())
        if (op->computes() && op->usesValue(input))
          users.push_back(op);
      if (users.size() > 1 || (users.size() == 1 && timesTaken(*users[0], input) > 1))
        giveOwnInputs(made, input, users);
      else if (!users.empty())
        checkAddsOnce(made.graph, *users[0], input);
    }
  }

  /// As operands of their own; kernels do not ask whether two are one tensor, operators made of others may.
  size_t timesTaken(const Op &op, const Value *value) const {
    const ir::OpInfo *info = op.kind == Op::Kind::Call && catalog_ ? catalog_->find(op.name) : nullptr;
    if (!info || info->composite)
      return 1;
    return static_cast<size_t>(std::ranges::count(op.operands(), value, &ir::Operand::value));
  }

  void checkAddsOnce(const ir::Graph &graph, const Op &op, const Value *value) {
    const NeedsGrad needsGrad = likelyNeedsGrad(graph);
    const Unit unit = unitOf(graph, op, needsGrad);
    ir::GradientTypes cotangents, soFar;
    for (const Value *result : op.results()) {
      ir::Type type = result->type;
      type.grad = false;
      const auto known = needsGrad.find(result);
      cotangents.push_back(known != needsGrad.end() && known->second ? std::optional(type) : std::nullopt);
    }
    if (std::ranges::none_of(cotangents, [](const auto &type) { return type.has_value(); }))
      return;
    size_t operand = 0;
    for (size_t i = 0; i < unit.operands.size(); ++i) {
      ir::Type type = unit.operands[i]->type;
      type.grad = false;
      const bool isIt = unit.operands[i] == value;
      operand = isIt ? i : operand;
      soFar.push_back(isIt ? std::optional(type) : std::nullopt);
    }
    SizedPieces sized(pieces_);
    const ir::BackwardPiece &piece = sized.backward(unit.graph, cotangents, soFar);
    if (!piece.opaque.empty() || !addsOnce(piece, operand))
      userError(fmt::format("'{}' may take '%{}' several times inside: autograd adds their gradients one by "
                            "one, between those of others",
                            op.name, value->name));
  }

  /// The last operator first, and the operands of one in their order: so the engine hands out gradients.
  void giveOwnInputs(GraphPart &made, Value *input, const std::vector<Op *> &users) {
    ir::Graph &graph = made.graph;
    const auto own = [&] {
      Value *use = graph.declare(input->kind, graph.freshName(input->name + ".use"), input->type);
      made.uses[use->name] = input->name;
      return use;
    };
    for (auto user = users.rbegin(); user != users.rend(); ++user) {
      for (size_t left = timesTaken(**user, input); left > 1; --left) {
        std::vector<ir::Operand> operands = (*user)->operands();
        std::ranges::find(operands, input, &ir::Operand::value)->value = own();
        (*user)->setOperands(std::move(operands));
      }
      Value *last = own();
      (*user)->replaceUses(input, last);
      if ((*user)->body())
        for (Op *inner : (*user)->body()->ops())
          inner->replaceUses(input, last);
    }
    for (const auto &[use, of] : made.uses)
      if (of == input->name)
        for (const Op *user : std::vector<Op *>(graph.find(use)->users()))
          if (user->parent() == &graph.body())
            checkAddsOnce(graph, *user, graph.find(use));
    input->type.grad = false;
    if (!input->hasUses())
      graph.eraseDeclaration(input);
  }

  const ir::Graph &whole_;
  const std::vector<bool> &requiresGrad_;
  ir::PieceSource &pieces_;
  const ir::OpCatalog *catalog_;
  const NeedsGrad needsGrad_;
  std::unordered_map<const Op *, size_t> partOf_;
  size_t partCount_ = 1;
};

} // namespace

std::vector<GraphPart> partsOf(const ir::Graph &functional, const std::vector<bool> &requiresGrad,
                               ir::PieceSource &pieces, const ir::OpCatalog *catalog) {
  return Cutter(functional, requiresGrad, pieces, catalog).run();
}

} // namespace graphopt::passes
