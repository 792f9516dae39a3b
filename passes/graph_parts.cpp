// Values that cross from one part to the next are results of the one and inputs of the other.
#include "passes/graph_parts.h"

#include "ir/alias.h"
#include "ir/splice.h"
#include "passes/cast_uses.h"
#include "passes/own_uses.h"
#include "passes/regions.h"

#include <algorithm>
#include <fmt/format.h>
#include <graphopt/error.h>
#include <iterator>
#include <set>
#include <unordered_set>

namespace graphopt::passes {
namespace {

using ir::Op;
using ir::Value;

bool isConstant(const Value &value) {
  return value.kind == Value::Kind::Const || value.kind == Value::Kind::HostVal;
}

class Cutter {
public:
  Cutter(const ir::Graph &whole, const std::vector<ResultFacts> &results, ir::PieceSource &pieces,
         const ir::OpCatalog *catalog)
      : whole_(whole), results_(results), pieces_(pieces), catalog_(catalog),
        needsGrad_(likelyNeedsGrad(whole)) {}

  std::vector<GraphPart> run() {
    numberOps();
    std::vector<GraphPart> parts;
    for (size_t part = 0; part < partCount_; ++part)
      parts.push_back(make(part));
    checkWrites();
    for (size_t part = 0; part < partCount_; ++part)
      if (!parts[part].isViews)
        splitUses(part, parts[part]);
    return parts;
  }

private:
  // ---- where to cut

  /// Results with gradients that another such result is computed from.
  std::unordered_set<const Value *> innerResults() const {
    std::unordered_set<const Value *> ends, inner, before; // the last: some end is computed from it
    const std::vector<ir::Operand> &results = whole_.returnOp()->operands();
    for (size_t i = 0; i < results.size(); ++i)
      if (results[i].isValue() && results[i].value->isResult() && results_.at(i).requiresGrad)
        ends.insert(results[i].value);
    const std::vector<Op *> ops = whole_.body().ops();
    for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
      const bool leadsOn = std::ranges::any_of((*op)->results(), [&](const Value *result) {
        return ends.contains(result) || before.contains(result);
      });
      if (leadsOn)
        (*op)->forEachValue([&](const ir::Operand &operand) { before.insert(operand.value); });
    }
    std::ranges::copy_if(ends, std::inserter(inner, inner.end()),
                         [&](const Value *end) { return before.contains(end); });
    return inner;
  }

  /// The views from where memory was made to the results that show it.
  std::unordered_set<const Op *> shownViews() const {
    std::unordered_set<const Op *> views;
    std::unordered_set<const Value *> shared, bases;
    const ir::AliasInfo aliases(whole_);
    const std::vector<ir::Operand> &results = whole_.returnOp()->operands();
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].isValue() || !(results_.at(i).isOutsideMemory || results_.at(i).sharesMemory))
        continue;
      const Value *base = aliases.base(results[i].value);
      if (results_[i].isOutsideMemory && !base->isDeclared())
        userError("a result is memory from outside, and no view operator says how");
      for (const ir::ViewStep &step : aliases.chain(results[i].value))
        views.insert(step.op);
      (base == results[i].value ? shared : bases).insert(base);
    }
    for (const Value *value : shared)
      if (!bases.contains(value))
        userError("results share memory, and no view operator says how");
    return views;
  }

  void numberOps() {
    const std::unordered_set<const Value *> inner = innerResults();
    const std::unordered_set<const Op *> views = shownViews();
    bool isEmpty = true, isViews = false; // the part that is being filled
    for (const auto &op : whole_.body()) {
      if (op->kind == Op::Kind::Writeback || op->kind == Op::Kind::Return)
        continue;
      const bool isView = views.contains(op.get());
      if (!isEmpty && isViews != isView)
        ++partCount_;
      isEmpty = false;
      isViews = isView;
      partOf_[op.get()] = partCount_ - 1;
      if (isView)
        viewParts_.insert(partCount_ - 1);
      else if (std::ranges::any_of(op->results(),
                                   [&](const Value *value) { return inner.contains(value); })) {
        ++partCount_;
        isEmpty = true;
      }
    }
    if (isEmpty && partCount_ > 1)
      --partCount_; // nothing came after the last cut
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
    GraphPart made{viewParts_.contains(part),
                   ir::Graph(partCount_ == 1 ? whole_.name : fmt::format("{}.{}", whole_.name, part)),
                   {},
                   {}};
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

  /// It may have a backward that reads what it read and made.
  bool hasGradient(const Op &op) const {
    return std::ranges::any_of(op.results(), [&](const Value *result) { return needs(result); });
  }

  /// What an earlier part's backward reads must not change: autograd's error for it comes at backward.
  void checkWrites() const {
    for (const auto &op : whole_.body()) {
      if (op->kind != Op::Kind::Update)
        continue;
      const size_t part = partOf_.at(op.get());
      for (const Value *written : overwrittenBy(*op, catalog_)) {
        const bool isEarlier =
            (written->isResult() && partOf(written) < part && hasGradient(*written->def)) ||
            std::ranges::any_of(written->users(), [&](const Op *user) {
              return partOf(*user).value_or(part) < part && hasGradient(*user);
            });
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

  void splitUses(size_t part, GraphPart &made) const {
    for (Value *input : std::vector<Value *>(made.graph.declarations())) {
      const Value *value = whole_.find(input->name);
      if (!isConstant(*value) && needs(value))
        giveOwnUses(made, input,
                    othersComeFirst(part, value) ? Gradients::ComeFirst : Gradients::MayComeFirst, pieces_,
                    catalog_);
    }
  }

  const ir::Graph &whole_;
  const std::vector<ResultFacts> &results_;
  ir::PieceSource &pieces_;
  const ir::OpCatalog *catalog_;
  const NeedsGrad needsGrad_;
  std::unordered_map<const Op *, size_t> partOf_;
  std::set<size_t> viewParts_;
  size_t partCount_ = 1;
};

} // namespace

std::vector<GraphPart> partsOf(const ir::Graph &functional, const std::vector<ResultFacts> &results,
                               ir::PieceSource &pieces, const ir::OpCatalog *catalog) {
  return Cutter(functional, results, pieces, catalog).run();
}

} // namespace graphopt::passes
