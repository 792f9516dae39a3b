// Builds the tables from prims.def and aten.def, with an index by name.
#include "ir/op_table.h"

#include <graphopt/error.h>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace graphopt::ir {

namespace {
using enum Accepts;
using F = FusionClass;
using S = ShapeRule;
using A = AutocastClass;
using R = RecomputeClass;

constexpr PrimRow kPrims[] = {
#define PRIM(name, operands, effects, shape, accepts, fusion, reference, scalar)                             \
  {"prim." name, operands, effects, S::shape, accepts, F::fusion, reference, scalar},
#include "ir/prims.def"
#undef PRIM
};

constexpr AtenRow kAten[] = {
#define ATEN(name, effects, writes, when, autocast, recompute)                                               \
  {"aten." name, effects, writes, when, A::autocast, R::recompute},
#define ANY_ORDER(name)
#include "ir/aten.def"
#undef ANY_ORDER
#undef ATEN
};

constexpr std::string_view kAnyOrder[] = {
#define ATEN(name, effects, writes, when, autocast, recompute)
#define ANY_ORDER(name) "aten." name,
#include "ir/aten.def"
#undef ANY_ORDER
#undef ATEN
};

template <class Row> using Index = std::unordered_map<std::string_view, const Row *>;

template <class Row> Index<Row> indexByName(std::span<const Row> rows) {
  Index<Row> index;
  for (const Row &row : rows)
    GO_ASSERT(index.emplace(row.name, &row).second, "two rows for " + std::string(row.name));
  return index;
}

/// The rows that stand for every overload, by the name without one.
Index<AtenRow> indexFamilies(std::span<const AtenRow> rows) {
  constexpr std::string_view kEvery = ".*";
  Index<AtenRow> index;
  for (const AtenRow &row : rows)
    if (row.name.ends_with(kEvery))
      index.emplace(row.name.substr(0, row.name.size() - kEvery.size()), &row);
  return index;
}

template <class Row> const Row *lookUp(const Index<Row> &index, std::string_view name) {
  auto it = index.find(name);
  return it == index.end() ? nullptr : it->second;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  while (true) {
    size_t start = text.find_first_not_of(' ');
    if (start == std::string_view::npos)
      return found;
    size_t end = std::min(text.find(' ', start), text.size());
    found.push_back(text.substr(start, end - start));
    text.remove_prefix(end);
  }
}
} // namespace

std::span<const PrimRow> prims() { return kPrims; }
std::span<const AtenRow> atenRows() { return kAten; }

const PrimRow *findPrim(std::string_view irName) {
  static const Index<PrimRow> index = indexByName(prims());
  return lookUp(index, irName);
}

const AtenRow *findAten(std::string_view irName) {
  static const Index<AtenRow> index = indexByName(atenRows()), families = indexFamilies(atenRows());
  constexpr std::string_view kSpace = "aten.";
  if (!irName.starts_with(kSpace))
    return nullptr;
  if (const AtenRow *row = lookUp(index, irName))
    return row;
  return lookUp(families, irName.substr(0, irName.find('.', kSpace.size())));
}

std::span<const std::string_view> anyOrderRows() { return kAnyOrder; }

bool takesAnyOrder(std::string_view irName) {
  static const std::unordered_set<std::string_view> names(anyOrderRows().begin(), anyOrderRows().end());
  const size_t dot = irName.find('.', std::string_view("aten.").size());
  return names.contains(irName) || names.contains(std::string(irName.substr(0, dot)) + ".*");
}

PrimSignature signatureOf(const PrimRow &row) {
  PrimSignature signature;
  size_t bar = row.operands.find('|');
  signature.operands = words(row.operands.substr(0, bar));
  if (bar != std::string_view::npos)
    signature.attrs = words(row.operands.substr(bar + 1));
  for (std::string_view &name : signature.operands) {
    if (!name.ends_with("..."))
      continue;
    name.remove_suffix(3);
    signature.list = true;
  }
  return signature;
}

} // namespace graphopt::ir
