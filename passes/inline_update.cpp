// Walks the region with a table of what each of its values is now:
//
//   a copy       is what it copies
//   a view       is prims on what its base is now
//   x.op_(y)     makes x what op(x, y) is, by the rule of op; and the base of a view x is put together again,
//                by undoing the view's prims: reshape by reshape, a slice by joining what lies around it
//
// Other views of a written base are out of date then; a region that reads one is left alone.
#include "passes/inline_update.h"

#include "ir/op_catalog.h"

#include "passes/core_rules.h"
#include "passes/rule_eval.h"

#include <algorithm>
#include <unordered_map>

namespace graphopt::passes {
namespace {
using ir::Op;
using ir::Operand;
using ir::Value;

/// Operators that write statistics by the side of their results, and the one that returns them as well.
constexpr std::pair<std::string_view, std::string_view> kSideWrites[] = {
    {"aten.native_batch_norm", "aten._native_batch_norm_legit_functional"},
    {"aten._native_batch_norm_legit", "aten._native_batch_norm_legit_functional"},
    {"aten.cudnn_batch_norm", "aten.cudnn_batch_norm"}, // its rule goes by the number of results
};

bool isSideWrite(const Op &op) {
  return std::any_of(std::begin(kSideWrites), std::end(kSideWrites),
                     [&](const auto &row) { return row.first == op.name; });
}

/// Draws that fill a tensor, and the operator that fills a new contiguous one with the very same numbers. It
/// stays a call: `aten.bernoulli.p(%x) {p=0.9}`.
constexpr std::pair<std::string_view, std::string_view> kDraws[] = {
    {"aten.bernoulli_.float", "aten.bernoulli.p"}};

std::string_view drawOf(const Op &op) {
  for (const auto &[inPlace, functional] : kDraws)
    if (inPlace == op.name)
      return functional;
  return "";
}

/// "aten.add_.Tensor" -> "aten.add.Tensor".
std::string functionalName(const Op &op) {
  for (const auto &[name, functional] : kSideWrites)
    if (name == op.name)
      return std::string(functional);
  ir::OpName name = ir::splitOpName(op.name);
  if (!name.base.ends_with('_') || name.base.ends_with("__"))
    return "";
  name.base.pop_back();
  return ir::joinOpName(name);
}

bool isView(const Op &op) {
  bool found = false;
  op.forEachValue([&](const Operand &operand) { found |= operand.mark == ir::Mark::Alias; });
  return found;
}

bool isCopy(const Op &op) { return op.isCall("aten.clone") && op.operands().size() == 1; }
bool isEmpty(const Op &op) { return op.isCall("aten.empty_strided"); }

/// Whether each operator of the region is one that the walk below knows.
bool isKnown(const Op &op) {
  if (op.kind == Op::Kind::Yield || isCopy(op) || isEmpty(op))
    return true;
  if (op.kind != Op::Kind::Call)
    return false;
  return !drawOf(op).empty() || findCoreRule(op.writesAny() ? functionalName(op) : op.name) != nullptr;
}

class Inliner {
public:
  Inliner(Op &update, ir::Graph &graph) : update_(update), graph_(graph), builder_(graph, update) {}

  std::vector<Value *> run() {
    start_ = graph_.insertBefore(&update_, Op::Kind::Call, "aten.start", {}, {}, {{"start", {}}});
    try {
      std::vector<Value *> results;
      for (const auto &op : *update_.body())
        if (op->kind == Op::Kind::Yield)
          results = finish(*op);
        else
          visit(*op);
      graph_.erase(start_);
      return results;
    } catch (const CannotDecompose &) {
      rollBack();
      throw;
    }
  }

private:
  void rollBack() {
    const std::vector<Op *> ops = graph_.body().ops();
    const auto from = std::find(ops.begin(), ops.end(), start_);
    const auto to = std::find(from, ops.end(), &update_);
    for (auto op = to; op != from; --op)
      if (*op != &update_)
        graph_.erase(*op);
    graph_.erase(start_);
  }

  // ---- the table

  Value *now(Value *value) const {
    const bool isOuter = value->isDeclared() || value->def->parent() != update_.body();
    if (isOuter)
      return value;
    auto known = now_.find(value);
    if (known == now_.end() || !known->second)
      throw CannotDecompose{"a view of what was written"};
    return known->second;
  }

  std::vector<Operand> substituted(const std::vector<Operand> &operands) const {
    std::vector<Operand> result = operands;
    for (Operand &operand : result) {
      operand.mark = ir::Mark::None;
      operand.items = substituted(operand.items);
      if (operand.isValue())
        operand.value = now(operand.value);
    }
    return result;
  }

  void visit(const Op &op) {
    if (isCopy(op))
      now_[op.result()] = now(op.operands()[0].value);
    else if (isEmpty(op))
      now_[op.result()] = nullptr; // until it is written as a whole
    else if (op.isCall("aten.copy_") && isUnwritten(op.operands()[0].value))
      define(op.operands()[0].value, op.operands()[1].value);
    else if (!drawOf(op).empty())
      draw(op);
    else if (op.writesAny())
      write(op);
    else
      compute(op);
  }

  bool isUnwritten(const Value *value) const {
    auto known = now_.find(value);
    return known != now_.end() && !known->second;
  }

  /// The first contents of a tensor made empty.
  void define(Value *target, Value *source) {
    Value *value = now(source);
    if (value->type.dtype != target->type.dtype || value->type.sizes != target->type.sizes)
      throw CannotDecompose{"a copy that converts"};
    now_[target] = value;
  }

  void compute(const Op &op) {
    const std::vector<ir::Type> types = typesOf(op.results());
    const std::vector<Value *> values = apply(op, op.name, types);
    for (size_t i = 0; i < values.size(); ++i)
      now_[op.result(i)] = values[i];
    if (isView(op))
      for (Value *result : op.results())
        bases_[result] = op.operands()[0].value;
  }

  static std::vector<ir::Type> typesOf(const std::vector<Value *> &values) {
    std::vector<ir::Type> types;
    for (const Value *value : values)
      types.push_back(value->type);
    return types;
  }

  /// The prims of a rule, for the operator's results as they are now.
  std::vector<Value *> apply(const Op &op, const std::string &name, const std::vector<ir::Type> &types) {
    const CoreRule *rule = findCoreRule(name);
    if (!rule)
      throw CannotDecompose{"no rule"};
    std::vector<ir::Graph::ResultSpec> specs;
    for (const ir::Type &type : types)
      specs.push_back({update_.result()->name, type});
    std::vector<Operand> operands = substituted(op.operands());
    if (isView(op) && operands.at(0).isValue())
      operands[0].mark = ir::Mark::Alias; // the rule may answer with the operand itself
    Op *call = graph_.insertBefore(&update_, Op::Kind::Call, name, std::move(operands), op.attrs, specs);
    call->state = op.state;
    auto outcome = applyCoreRule(*rule, *call, graph_);
    graph_.erase(call);
    if (const std::string *reason = std::get_if<std::string>(&outcome))
      throw CannotDecompose{*reason};
    return std::get<std::vector<Value *>>(std::move(outcome));
  }

  // ---- writes

  void write(const Op &op) {
    std::vector<Value *> written;
    op.forEachValue([&](const Operand &operand) {
      if (operand.mark == ir::Mark::Write)
        written.push_back(operand.value);
    });
    std::vector<ir::Type> types = typesOf(op.results());
    for (const Value *value : written)
      types.push_back(value->type);
    const bool isPlain = op.results().empty() && written.size() == 1 && op.operands()[0].value == written[0];
    if (!isPlain && !isSideWrite(op))
      throw CannotDecompose{"a write beside results"};
    const std::vector<Value *> values = apply(op, functionalName(op), types);
    for (size_t i = 0; i < op.results().size(); ++i)
      now_[op.result(i)] = values[i];
    for (size_t i = 0; i < written.size(); ++i)
      rewrite(written[i], values[op.results().size() + i]);
  }

  /// Into a whole tensor that lies as the new one would.
  void draw(const Op &op) {
    Value *target = op.operands()[0].value;
    Value *like = now(target);
    const ir::Attr *p = op.attr("p");
    if (bases_.contains(target) || target->type.strides || like->type.dtype != target->type.dtype || !p)
      throw CannotDecompose{"a draw into a view, or in another layout"};
    Value *drawn = builder_.call(drawOf(op), {Operand::of(like)}, {{"p", *p}}, target->type);
    rewrite(target, drawn);
  }

  /// `target` is `value` from now on; so what it views changes, and other views of that are out of date.
  void rewrite(Value *target, Value *value) {
    std::vector<std::pair<Value *, Value *>> fresh = {{target, value}};
    Value *root = target;
    for (; bases_.contains(root); root = bases_.at(root)) {
      value = putBack(now(bases_.at(root)), now(root), value);
      fresh.push_back({bases_.at(root), value});
    }
    for (const auto &[view, base] : bases_)
      if (rootOf(view) == root)
        now_[view] = nullptr;
    for (const auto &[changed, current] : fresh)
      now_[changed] = current;
  }

  const Value *rootOf(const Value *view) const {
    while (bases_.contains(view))
      view = bases_.at(view);
    return view;
  }

  Value *putBack(Value *base, Value *view, Value *value) {
    if (view == base)
      return value;
    const Op *def = view->def;
    if (!def || def->operands().empty() || !def->operands()[0].isValue())
      throw CannotDecompose{"a view that no prim undoes"};
    Value *inner = def->operands()[0].value;
    return putBack(base, inner, undone(*def, inner, value));
  }

  Value *undone(const Op &prim, Value *inner, Value *value) {
    if (prim.isCall("prim.reshape"))
      return builder_.reshape(value, inner->type.sizes);
    if (prim.isCall("prim.transpose"))
      return untransposed(prim, value);
    if (prim.isCall("prim.slice"))
      return joined(prim, inner, value);
    throw CannotDecompose{"a view that no prim undoes"};
  }

  Value *untransposed(const Op &prim, Value *value) {
    const std::vector<ir::Attr> &dims = prim.attr("dims")->items();
    std::vector<ir::Attr> inverse(dims.size());
    for (size_t i = 0; i < dims.size(); ++i)
      inverse[static_cast<size_t>(dims[i].asInt())] = ir::Attr::integer(static_cast<int64_t>(i));
    return builder_.prim("prim.transpose", {Operand::of(value)},
                         {{"dims", ir::Attr::list(std::move(inverse))}});
  }

  Value *joined(const Op &prim, Value *inner, Value *value) {
    if (prim.attr("step")->asInt() != 1)
      throw CannotDecompose{"a view with steps"};
    const auto dim = static_cast<size_t>(prim.attr("dim")->asInt());
    const ir::Dim start = prim.attr("start")->asDim(), end = prim.attr("end")->asDim();
    const ir::Dim size = inner->type.sizes[dim];
    std::vector<Operand> pieces;
    auto keep = [&](const ir::Dim &from, const ir::Dim &to) {
      if (from == to)
        return;
      auto number = [](const ir::Dim &n) { return ir::Attr::integer(n); };
      pieces.push_back(Operand::of(builder_.prim("prim.slice", {Operand::of(inner)},
                                                 {{"dim", number(static_cast<int64_t>(dim))},
                                                  {"start", number(from)},
                                                  {"end", number(to)},
                                                  {"step", number(1)}})));
    };
    keep(0, start);
    pieces.push_back(Operand::of(value));
    keep(end, size);
    if (pieces.size() == 1)
      return value;
    return builder_.prim("prim.concat", {Operand::list(std::move(pieces))}, {{"dim", *prim.attr("dim")}});
  }

  // ---- the end

  std::vector<Value *> finish(const Op &yield) {
    std::vector<Value *> results;
    for (size_t i = 0; i < yield.operands().size(); ++i)
      results.push_back(finished(now(yield.operands()[i].value), update_.result(i)->type, results));
    return results;
  }

  Value *finished(Value *value, const ir::Type &type, const std::vector<Value *> &others) {
    const bool isShared = std::find(others.begin(), others.end(), value) != others.end();
    if (isShared || !isOurs(value))
      value = builder_.copy(value);
    value->type = type;
    return value;
  }

  /// Made for this update, after the mark: nobody else's layout changes with it.
  bool isOurs(const Value *value) const { return value->isResult() && value->id() > start_->result()->id(); }

  Op &update_;
  ir::Graph &graph_;
  CoreBuilder builder_;
  Op *start_ = nullptr;
  std::unordered_map<const Value *, Value *> now_;
  std::unordered_map<const Value *, Value *> bases_; // of views
};
} // namespace

std::optional<std::vector<Value *>> inlineUpdate(Op &update, ir::Graph &graph) {
  for (const auto &op : *update.body())
    if (!isKnown(*op))
      return std::nullopt;
  try {
    return Inliner(update, graph).run();
  } catch (const CannotDecompose &) {
    return std::nullopt;
  }
}

} // namespace graphopt::passes
