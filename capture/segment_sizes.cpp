// There are thousands of numbers in a segment and few expressions: each expression is evaluated once.
#include "capture/segment_sizes.h"

#include "capture/shapes.h"

#include <algorithm>

namespace graphopt::capture {
namespace {

// No ranges: every number has its expression already.
constexpr ir::DimRange kAny{ir::DimRange::kNegInf, ir::DimRange::kInf};

bool isWithin(int64_t value, const ir::DimRange &range) { return value >= range.lo && value <= range.hi; }

} // namespace

SegmentSizes::SegmentSizes(const std::vector<const Segment *> &members,
                           const std::vector<std::optional<ir::Type>> &types, SymTable table)
    : syms_(table.syms()) {
  defining_.resize(syms_.size());
  for (uint32_t id = 1; id < types.size(); ++id) {
    if (!types[id])
      continue;
    if (!types[id]->strides)
      contiguous_.push_back(id);
    for (uint32_t d = 0; d < types[id]->sizes.size(); ++d) {
      add({Place::Kind::Size, id, d}, types[id]->sizes[d]);
      if (types[id]->strides)
        add({Place::Kind::Stride, id, d}, (*types[id]->strides)[d]);
    }
  }
  for (uint32_t row = 0; row < members[0]->size(); ++row)
    for (const LateScalar &integer : members[0]->infos[row].integers) {
      const Place place{Place::Kind::Integer, row, integer.word};
      std::vector<int64_t> values;
      for (const Segment *member : members)
        values.push_back(numberAt(place, *member));
      add(place, table.of(values, kAny));
    }
}

void SegmentSizes::add(Place place, const ir::Dim &dim) {
  const auto known = std::ranges::find(dims_, dim);
  place.dim = static_cast<uint32_t>(known - dims_.begin());
  places_.push_back(place);
  if (known != dims_.end())
    return;
  dims_.push_back(dim);
  for (size_t i = 0; i < syms_.size(); ++i)
    if (dim == ir::Dim::sym(syms_[i].name))
      defining_[i] = place;
}

int64_t SegmentSizes::numberAt(const Place &place, const Segment &segment) {
  if (place.kind == Place::Kind::Integer)
    return static_cast<int64_t>(segment.infos[place.owner].words[place.index]);
  const Metadata &metadata = segment.values[place.owner].metadata;
  return place.kind == Place::Kind::Size ? metadata.sizes[place.index] : metadata.strides[place.index];
}

std::optional<std::vector<ir::SymValue>> SegmentSizes::of(const Segment &segment) const {
  std::vector<ir::SymValue> syms;
  for (size_t i = 0; i < syms_.size(); ++i) {
    if (!defining_[i])
      return std::nullopt; // of no number that this can look at
    syms.push_back({syms_[i].name, numberAt(*defining_[i], segment)});
    if (!isWithin(syms.back().value, syms_[i].range))
      return std::nullopt;
  }
  if (!std::ranges::all_of(contiguous_,
                           [&](ValueId id) { return isContiguous(segment.values[id].metadata); }))
    return std::nullopt;
  std::vector<int64_t> expected;
  for (const ir::Dim &dim : dims_) {
    const std::optional<int64_t> value = ir::evaluate(dim, syms);
    if (!value)
      return std::nullopt; // of a sym that the graph does not have
    expected.push_back(*value);
  }
  const bool fits = std::ranges::all_of(
      places_, [&](const Place &place) { return numberAt(place, segment) == expected[place.dim]; });
  return fits ? std::optional(std::move(syms)) : std::nullopt;
}

} // namespace graphopt::capture
