// Rows keep what matching and running need; here it is spelled as text has it: marks, attributes that differ
// from the schema's defaults, names.
#include "capture/segment_graph.h"

#include "capture/ambient.h"
#include "capture/dim_marks.h"
#include "capture/shapes.h"
#include "capture/sym_table.h"
#include "capture/thread_probe.h"
#include "capture/to_attr.h"
#include "capture/window_sizes.h"

#include <ATen/core/ivalue.h>
#include <algorithm>

namespace graphopt::capture {
namespace {

using ir::Mark;
using ir::Operand;
using Kind = ir::Value::Kind;

/// Without sizes and strides.
ir::Type typeOf(const Metadata &metadata) {
  ir::Type type;
  type.dtype = metadata.dtype.toScalarType();
  type.device = toDevice(metadata.device);
  type.wrapped = metadata.isWrapped;
  type.conj = metadata.keys.has(c10::DispatchKey::Conjugate);
  type.neg = metadata.keys.has(c10::DispatchKey::Negative);
  return type;
}

constexpr ir::DimRange kAnyInteger{ir::DimRange::kNegInf, ir::DimRange::kInf};
constexpr ir::DimRange kAnySize{0, ir::DimRange::kInf};

/// Of a live-in's dim: what derived segments keep to.
ir::DimRange rangeOf(const SegmentValue &value, size_t dim) {
  if (const DimMark *mark = markOf(value.marks, dim); mark && mark->isDynamic)
    return {mark->least, mark->most};
  return {2, ir::DimRange::kInf};
}

bool sameFlags(const Segment &a, const Segment &b) {
  for (size_t row = 0; row < a.size(); ++row)
    for (size_t i = 0; i < a.infos[row].arguments.size(); ++i) {
      const c10::IValue &x = a.infos[row].arguments[i], &y = b.infos[row].arguments[i];
      bool areFlags = (x.isBool() && y.isBool()) || (x.isBoolList() && y.isBoolList());
      if (areFlags && x != y)
        return false;
    }
  return true;
}

class SegmentGraphBuilder {
public:
  SegmentGraphBuilder(const std::vector<const Segment *> &members, const std::string &name,
                      const std::vector<ValueId> *returned)
      : members_(members), segment_(*members[0]), returned_(returned), graph_(name),
        types_(segment_.values.size()), values_(segment_.values.size(), nullptr) {
    graph_.device = toDevice(segment_.device);
  }

  SizedGraph build() {
    for (ValueId id : segment_.liveIns)
      declare(id);
    for (size_t i = 0; i < segment_.size(); ++i)
      addRow(i);
    addReturn();
    graph_.syms = syms_.syms();
    return {std::move(graph_), SegmentSizes(members_, types_, syms_)};
  }

private:
  /// A number of all members.
  template <class F> ir::Dim dim(ir::DimRange range, F &&numberOf, const std::vector<ir::Dim> &likely = {}) {
    std::vector<int64_t> values;
    for (const Segment *member : members_)
      values.push_back(numberOf(*member));
    return syms_.of(values, range, likely);
  }

  /// `likely`: of the last dims.
  ir::Type typeOfValue(ValueId id, const std::vector<std::vector<ir::Dim>> &likely = {}) {
    const SegmentValue &value = segment_.values[id];
    ir::Type type = typeOf(value.metadata);
    const size_t rank = value.metadata.sizes.size();
    for (size_t d = 0; d < rank; ++d)
      type.sizes.push_back(dim(
          value.isLiveIn ? rangeOf(value, d) : kAnySize,
          [&](const Segment &member) { return member.values[id].metadata.sizes[d]; },
          d + likely.size() >= rank ? likely[d + likely.size() - rank] : std::vector<ir::Dim>()));
    bool needsStrides = std::any_of(members_.begin(), members_.end(), [&](const Segment *member) {
      return !isContiguous(member->values[id].metadata);
    });
    if (needsStrides)
      type.strides.emplace();
    for (size_t d = 0; needsStrides && d < value.metadata.strides.size(); ++d)
      type.strides->push_back(
          dim(kAnySize, [&](const Segment &member) { return member.values[id].metadata.strides[d]; }));
    if (type.device == graph_.device)
      type.device.reset();
    types_[id] = type;
    return type;
  }

  void declare(ValueId id) {
    const SegmentValue &value = segment_.values[id];
    Kind kind = value.isParameter    ? Kind::Param
                : value.isBuffer     ? Kind::Buffer
                : value.name.empty() ? Kind::Outside
                                     : Kind::Input;
    ir::Type type = typeOfValue(id);
    type.grad = value.metadata.requiresGrad;
    std::string base = value.name.empty() ? "out" : value.name;
    values_[id] = graph_.declare(kind, graph_.freshName(base), type);
    ir::Guard guard;
    guard.number = static_cast<int>(graph_.guards.size());
    guard.kind = "meta";
    guard.operands = {Operand::of(values_[id])};
    guard.expected = type;
    graph_.guards.push_back(std::move(guard));
  }

  Mark markOf(const RowInfo &info, size_t argument, ValueId id) const {
    bool isWritten = std::find(info.written.begin(), info.written.end(), id) != info.written.end();
    if (isWritten && (info.facts->arguments[argument].isWritten || info.facts->hidesWrites))
      return Mark::Write;
    for (ValueId result : info.results) {
      bool shares = result != 0 && segment_.values[result].family == segment_.values[id].family;
      if (shares && std::find(info.written.begin(), info.written.end(), result) == info.written.end())
        return Mark::Alias;
    }
    return Mark::None;
  }

  Operand operandOf(const RowInfo &info, size_t argument, ValueId id) const {
    return id == 0 ? Operand::none() : Operand::of(values_[id], markOf(info, argument, id));
  }

  Operand argumentOf(const RowInfo &info, size_t argument) const {
    const ValueIds &ids = info.operands[argument];
    if (info.facts->arguments[argument].role == ArgumentFacts::Role::Tensor)
      return operandOf(info, argument, ids[0]);
    if (info.arguments[argument].isNone())
      return Operand::none();
    std::vector<Operand> items;
    for (ValueId id : ids)
      items.push_back(operandOf(info, argument, id));
    return Operand::list(std::move(items));
  }

  /// The members' literals as one, with expressions for integers that differ.
  ir::Attr merged(const std::vector<ir::Attr> &attrs) {
    auto all = [&](auto &&holds) { return std::all_of(attrs.begin(), attrs.end(), holds); };
    if (all([&](const ir::Attr &attr) { return attr == attrs[0]; }))
      return attrs[0];
    if (all([](const ir::Attr &attr) { return attr.isInt(); })) {
      std::vector<int64_t> values;
      for (const ir::Attr &attr : attrs)
        values.push_back(attr.asInt());
      return ir::Attr::integer(syms_.of(values, kAnyInteger));
    }
    if (!all([&](const ir::Attr &attr) {
          return attr.isList() && attr.items().size() == attrs[0].items().size();
        }))
      return attrs[0];
    std::vector<ir::Attr> items;
    for (size_t i = 0; i < attrs[0].items().size(); ++i) {
      std::vector<ir::Attr> item;
      for (const ir::Attr &attr : attrs)
        item.push_back(attr.items()[i]);
      items.push_back(merged(item));
    }
    return ir::Attr::list(std::move(items));
  }

  std::vector<ir::NamedAttr> attrsOf(size_t row) {
    const RowInfo &info = segment_.infos[row];
    std::vector<ir::NamedAttr> attrs;
    for (size_t i = 0; i < info.arguments.size(); ++i) {
      const ArgumentFacts &argument = info.facts->arguments[i];
      if (argument.role != ArgumentFacts::Role::Attr)
        continue;
      std::vector<ir::Attr> literals;
      for (const Segment *member : members_)
        literals.push_back(toAttr(member->infos[row].arguments[i], *argument.type));
      ir::Attr attr = merged(literals);
      if (!argument.defaultValue || !(*argument.defaultValue == attr))
        attrs.push_back({argument.name, std::move(attr)});
    }
    return attrs;
  }

  uint32_t stateOf(const Row &row, const RowInfo &info) {
    AmbientState state;
    state.grad = ThreadProbe::grad(row.thread);
    state.inference = ThreadProbe::inference(row.thread);
    state.autocast = ThreadProbe::autocast(row.thread, segment_.device.type());
    if (state.autocast) {
      state.autocastDtype = ThreadProbe::autocastDtype(row.thread, segment_.device.type());
      state.autocastCache = ThreadProbe::autocastCache(row.thread);
    }
    return graph_.intern({info.module, false, ambientWords(state)});
  }

  std::vector<std::vector<ir::Dim>> windowsOf(const RowInfo &info) const {
    if (members_.size() == 1 || info.operands.empty() || info.operands[0].size() != 1 ||
        info.operands[0][0] == 0)
      return {};
    return windowSizes(segment_, info, values_[info.operands[0][0]]->type.sizes);
  }

  void addRow(size_t i) {
    const RowInfo &info = segment_.infos[i];
    std::vector<Operand> operands;
    for (size_t a = 0; a < info.arguments.size(); ++a)
      if (info.facts->arguments[a].role != ArgumentFacts::Role::Attr)
        operands.push_back(argumentOf(info, a));
    const std::vector<std::vector<ir::Dim>> windows = windowsOf(info);
    std::vector<ValueId> made; // a written argument that is returned is no result of its own
    std::vector<ir::Graph::ResultSpec> results;
    for (ValueId id : info.results) {
      if (std::find(info.written.begin(), info.written.end(), id) != info.written.end())
        continue;
      made.push_back(id);
      results.push_back({info.facts->base, id == 0 ? noneType() : typeOfValue(id, windows)});
    }
    ir::Op *op = graph_.append(graph_.body(), ir::Op::Kind::Call, info.facts->name, std::move(operands),
                               attrsOf(i), results);
    op->state = stateOf(segment_.rows[i], info);
    for (size_t r = 0; r < made.size(); ++r)
      if (ir::Value *&known = values_[made[r]]; !known || made[r] == 0)
        known = op->result(r); // else the operator gave its operand back: still that value
  }

  static ir::Type noneType() {
    ir::Type type;
    type.kind = ir::Type::Kind::None;
    return type;
  }

  std::vector<ValueId> unused() const {
    std::vector<ValueId> ids;
    for (size_t id = 1; id < values_.size(); ++id)
      if (!segment_.values[id].isLiveIn && values_[id] && !values_[id]->hasUses())
        ids.push_back(static_cast<ValueId>(id));
    return ids;
  }

  void addReturn() {
    std::vector<Operand> operands;
    for (ValueId id : returned_ ? *returned_ : unused()) {
      bool isAlias = segment_.values[segment_.values[id].family].isLiveIn;
      operands.push_back(Operand::of(values_[id], isAlias ? Mark::Alias : Mark::None));
    }
    graph_.append(graph_.body(), ir::Op::Kind::Return, "", std::move(operands));
  }

  const std::vector<const Segment *> &members_;
  const Segment &segment_; // the first of them
  const std::vector<ValueId> *returned_;
  ir::Graph graph_;
  SymTable syms_;
  std::vector<std::optional<ir::Type>> types_; // by value
  std::vector<ir::Value *> values_;            // by value: the newest name
};

} // namespace

SizedGraph sizedGraphOf(const Segment &segment, const std::vector<const Segment *> &others,
                        const std::string &name, const std::vector<ValueId> *returned) {
  std::vector<const Segment *> members{&segment};
  std::copy_if(others.begin(), others.end(), std::back_inserter(members),
               [&](const Segment *other) { return sameFlags(segment, *other); });
  return SegmentGraphBuilder(members, name, returned).build();
}

ir::Graph graphOf(const Segment &segment, const std::vector<const Segment *> &others, const std::string &name,
                  const std::vector<ValueId> *returned) {
  return sizedGraphOf(segment, others, name, returned).graph;
}

} // namespace graphopt::capture
