// Simple expressions first: a sym, a multiple, a sum, a product of two. Two values fit every line, so a line
// with both a factor and a constant needs three that differ.
#include "capture/sym_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

namespace graphopt::capture {
namespace {

using Values = std::vector<int64_t>;
using ir::Dim;

struct Line {
  int64_t factor = 0, constant = 0;
};

/// y = factor x + constant, for all values.
std::optional<Line> lineThrough(const Values &x, const Values &y) {
  auto other = std::find_if(x.begin(), x.end(), [&](int64_t value) { return value != x[0]; });
  if (other == x.end())
    return std::nullopt;
  auto i = static_cast<size_t>(other - x.begin());
  int64_t run = x[i] - x[0], rise = y[i] - y[0];
  if (rise % run != 0)
    return std::nullopt;
  Line line{rise / run, y[0] - rise / run * x[0]};
  for (size_t k = 0; k < x.size(); ++k)
    if (y[k] != line.factor * x[k] + line.constant)
      return std::nullopt;
  return line;
}

Values product(const Values &a, const Values &b) {
  Values result(a.size());
  std::transform(a.begin(), a.end(), b.begin(), result.begin(), [](int64_t x, int64_t y) { return x * y; });
  return result;
}

std::optional<Dim> fit(const Dim &x, const Values &xs, const Values &ys) {
  std::optional<Line> line = lineThrough(xs, ys);
  bool isEnough = std::set<int64_t>(xs.begin(), xs.end()).size() >= 3;
  if (!line || line->factor == 0 || (line->constant != 0 && line->factor != 1 && !isEnough))
    return std::nullopt;
  return Dim(line->factor) * x + Dim(line->constant);
}

} // namespace

bool SymTable::has(const Dim &dim, const Values &values) const {
  for (size_t k = 0; k < values.size(); ++k) {
    std::vector<ir::SymValue> syms;
    for (size_t i = 0; i < syms_.size(); ++i)
      syms.push_back({syms_[i].name, values_[i][k]});
    if (ir::evaluate(dim, syms) != values[k])
      return false;
  }
  return true;
}

Dim SymTable::of(const Values &values, ir::DimRange range, const std::vector<Dim> &likely) {
  for (const Dim &dim : likely) // before constants: members may agree where others will not
    if (has(dim, values))
      return keep(dim, values);
  if (std::all_of(values.begin(), values.end(), [&](int64_t value) { return value == values[0]; }))
    return Dim(values[0]);
  for (const Base &base : bases_)
    if (base.values == values)
      return base.dim;
  for (const Base &base : bases_)
    if (auto found = fit(base.dim, base.values, values))
      return keep(*found, values);
  for (size_t i = 0; i < bases_.size(); ++i)
    for (size_t j = i; j < bases_.size(); ++j)
      if (auto found =
              fit(bases_[i].dim * bases_[j].dim, product(bases_[i].values, bases_[j].values), values))
        return *found;
  syms_.push_back({fmt::format("S{}", syms_.size()), range});
  values_.push_back(values);
  return keep(Dim::sym(syms_.back().name), values);
}

/// Others may be made of it: a length less one is a factor of the elements that a slice leaves.
Dim SymTable::keep(const Dim &dim, const Values &values) {
  const bool isVarying =
      std::any_of(values.begin(), values.end(), [&](int64_t value) { return value != values[0]; });
  if (isVarying &&
      std::none_of(bases_.begin(), bases_.end(), [&](const Base &base) { return base.values == values; }))
    bases_.push_back({dim, values});
  return dim;
}

} // namespace graphopt::capture
