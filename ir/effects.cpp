// Effects from the tables, the catalog and the marks, in that order of trust.
//
// A row of aten.def replaces the tags instead of adding to them: `dropout` is tagged as random, but draws
// nothing when it is not training, and only the row knows.
#include "ir/effects.h"

#include "ir/op_table.h"

#include <algorithm>
#include <charconv>
#include <graphopt/error.h>

namespace graphopt::ir {

namespace {
bool isMask(const Operand &operand) {
  if (operand.kind == Operand::Kind::List)
    return std::any_of(operand.items.begin(), operand.items.end(), isMask);
  if (operand.kind != Operand::Kind::Value || !operand.value->type.isTensor())
    return false;
  DType dtype = operand.value->type.dtype;
  return dtype == DType::Bool || dtype == DType::Byte;
}

size_t positionOf(std::string_view digits) {
  size_t position = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), position);
  GO_ASSERT(error == std::errc(), "aten.def: no position: " + std::string(digits));
  return position;
}

/// True or not zero; `unknown` for a missing or none attribute, and a value that only a call decides is true.
bool isTruthy(const Attr *attr, bool unknown) {
  if (!attr || attr->isNone())
    return unknown;
  switch (attr->kind()) {
  case Attr::Kind::Bool:
    return attr->asBool();
  case Attr::Kind::Int:
    return !attr->asDim().isConstant() || attr->asInt() != 0;
  case Attr::Kind::Float:
    return attr->asReal() != 0;
  case Attr::Kind::None:
  case Attr::Kind::Complex:
  case Attr::Kind::String:
  case Attr::Kind::Word:
  case Attr::Kind::List:
  case Attr::Kind::Opaque:
    return true;
  }
  return true;
}

bool wordHolds(std::string_view word, const Op &op) {
  if (word.starts_with('$')) {
    size_t position = positionOf(word.substr(1, word.size() - 2));
    return position >= op.operands().size() || isMask(op.operands()[position]);
  }
  bool negated = word.starts_with('!');
  if (negated)
    word.remove_prefix(1);
  bool defaultsToFalse = word.ends_with('?');
  if (defaultsToFalse)
    word.remove_suffix(1);
  return isTruthy(op.attr(word), !defaultsToFalse) != negated;
}

template <class F> void forEachWord(std::string_view text, const F &f) {
  while (!text.empty()) {
    size_t end = std::min(text.find(' '), text.size());
    f(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void addBits(Effects &effects, unsigned bits) {
  effects.random |= (bits & kRandom) != 0;
  effects.hostRead |= (bits & kHostRead) != 0;
  effects.ordered |= (bits & kOrdered) != 0;
  effects.uninitialized |= (bits & kUninitialized) != 0;
}

/// What the schema and its tags say; a row of aten.def has replaced the tags.
void addCatalog(Effects &effects, const OpInfo &info, bool hasRow) {
  auto written = [](const ArgInfo &arg) { return arg.written; };
  effects.writes |= std::any_of(info.args.begin(), info.args.end(), written);
  if (!hasRow) {
    effects.random |= info.random;
    effects.hostRead |= info.dataDependent;
  }
  // No result and no write: it was called for something that the schema does not tell.
  effects.ordered |= info.returns.empty() && !effects.writes;
}

/// Operands that the row says are written without a mark.
std::vector<size_t> hiddenWritesOf(const AtenRow &row, const Op &op) {
  std::vector<size_t> positions;
  if (row.writes.empty() || !conditionHolds(row.when, op))
    return positions;
  forEachWord(row.writes, [&](std::string_view word) {
    size_t position = positionOf(word);
    if (position < op.operands().size() && op.operands()[position].kind == Operand::Kind::Value)
      positions.push_back(position);
  });
  return positions;
}

bool isCollective(std::string_view name) {
  return name.starts_with("c10d::") || name.starts_with("_c10d_functional::");
}

Effects effectsOfCall(const Op &op, const OpCatalog *catalog) {
  Effects effects;
  const AtenRow *row = findAten(op.name);
  effects.writes = op.writesAny() || (row && !hiddenWritesOf(*row, op).empty());
  if (const PrimRow *prim = row ? nullptr : findPrim(op.name)) {
    addBits(effects, prim->effects);
    return effects;
  }
  if (row && conditionHolds(row->when, op))
    addBits(effects, row->effects);
  if (const OpInfo *info = catalog ? catalog->find(op.name) : nullptr)
    addCatalog(effects, *info, row != nullptr);
  else if (!row)
    effects.ordered |= catalog != nullptr || (op.results().empty() && !effects.writes);
  effects.ordered |= isCollective(op.name);
  return effects;
}

/// Neither LibTorch's nor ours.
bool isOfOthers(const Op &op) {
  const std::string &name = op.name;
  return op.kind == Op::Kind::Call && !name.starts_with("aten.") && !name.starts_with("prim.") &&
         !name.starts_with("graphopt::");
}

Effects effectsOfBody(const Block &body, const OpCatalog *catalog) {
  Effects all;
  for (const auto &op : body) {
    Effects one = effectsOf(*op, catalog);
    all.random |= one.random;
    all.hostRead |= one.hostRead;
    all.ordered |= one.ordered && op->kind != Op::Kind::Yield && !op->isCall(kSetRngState);
    all.uninitialized |= one.uninitialized;
  }
  return all;
}
} // namespace

bool conditionHolds(std::string_view condition, const Op &op) {
  bool holds = true;
  forEachWord(condition, [&](std::string_view word) { holds &= wordHolds(word, op); });
  return holds;
}

std::vector<size_t> hiddenWrites(const Op &op) {
  const AtenRow *row = op.kind == Op::Kind::Call ? findAten(op.name) : nullptr;
  return row ? hiddenWritesOf(*row, op) : std::vector<size_t>();
}

Effects effectsOf(const Op &op, const OpCatalog *catalog) {
  Effects effects;
  switch (op.kind) {
  case Op::Kind::Call:
    return effectsOfCall(op, catalog);
  case Op::Kind::Group:
  case Op::Kind::Update:
    return op.body() ? effectsOfBody(*op.body(), catalog) : effects;
  case Op::Kind::Vjp:
  case Op::Kind::Redraw:
    if (op.body())
      effects = effectsOfBody(*op.body(), catalog);
    effects.random = op.kind == Op::Kind::Vjp && op.body() &&
                     std::ranges::any_of(*op.body(), [](const auto &inner) { return isOfOthers(*inner); });
    return effects;
  case Op::Kind::Border:
    effects.hostRead = effects.ordered = true;
    return effects;
  case Op::Kind::Writeback:
    effects.writes = effects.ordered = true;
    return effects;
  case Op::Kind::Return:
  case Op::Kind::Yield:
    effects.ordered = true;
    return effects;
  }
  return effects;
}

std::vector<Device> redrawsOn(const Op &op) {
  std::vector<Device> devices;
  for (const auto &inner : *op.body())
    if (const Attr *attr = inner->isCall(kSetRngState) ? inner->attr("device") : nullptr)
      if (const auto device = attr->kind() == Attr::Kind::Word ? parseDevice(attr->text()) : std::nullopt)
        devices.push_back(*device);
  return devices;
}

bool mayDraw(const Op &call, const OpCatalog *catalog) {
  return call.kind == Op::Kind::Call && (effectsOf(call, catalog).random || isOfOthers(call));
}

bool isRemovable(const Op &op, const OpCatalog *catalog) {
  Effects effects = effectsOf(op, catalog);
  return !effects.writes && !effects.random && !effects.hostRead && !effects.ordered;
}

bool isMergeable(const Op &op, const OpCatalog *catalog) {
  return isRemovable(op, catalog) && !effectsOf(op, catalog).uninitialized;
}

} // namespace graphopt::ir
