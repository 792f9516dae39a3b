// Which of the two sources holds for a row is found out by asking both about the row as it was recorded.
#include "capture/shapes.h"

#include "capture/dim_marks.h"
#include "capture/meta_run.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace graphopt::capture {
namespace {

constexpr std::string_view kAttention = "scaled_dot_product_attention";

/// The values that a row makes, in order.
std::vector<ValueId> madeBy(const RowInfo &info) {
  std::vector<ValueId> made;
  for (ValueId id : info.results)
    if (static_cast<size_t>(id) >= info.valuesBefore)
      made.push_back(id);
  return made;
}

std::optional<Metadata> completed(const ResultLayout &layout, const Metadata &like) {
  Metadata metadata = like;
  metadata.sizes = layout.sizes;
  metadata.offset = layout.offset;
  const bool staysPlain = std::ranges::equal(layout.sizes, like.sizes, [](int64_t now, int64_t then) {
    return now == then || !(isSpecialSize(now) || isSpecialSize(then));
  });
  const bool isRowMajor = std::ranges::is_sorted(like.strides, std::greater<>());
  if (!layout.strides && !staysPlain && !isRowMajor) // kernels may see another memory format in such sizes
    return std::nullopt;
  std::optional<Sizes> strides = layout.strides ? layout.strides : denseStrides(layout.sizes, like);
  if (layout.sizes.size() != like.sizes.size() || !strides)
    return std::nullopt;
  metadata.strides = *strides;
  return metadata;
}

/// Whether the layouts are what was observed. Strides that are not stay to be told by the order of dims.
bool agree(const Segment &segment, const RowInfo &info, const ResultLayouts &layouts, bool withStrides) {
  const std::vector<ValueId> made = madeBy(info);
  if (layouts.size() != made.size())
    return false;
  for (size_t i = 0; i < made.size(); ++i) {
    const Metadata &seen = segment.values[made[i]].metadata;
    if (layouts[i].sizes != seen.sizes || layouts[i].offset != seen.offset)
      return false;
    std::optional<Sizes> strides =
        withStrides && layouts[i].strides ? layouts[i].strides : denseStrides(seen.sizes, seen);
    if (!strides || *strides != seen.strides)
      return false;
  }
  return true;
}

std::optional<ResultLayouts> layoutsBy(ShapeSource source, const Segment &segment, size_t row) {
  switch (source) {
  case ShapeSource::Unknown:
  case ShapeSource::None:
    return std::nullopt;
  case ShapeSource::InPlace:
    return ResultLayouts();
  case ShapeSource::Rule:
    return layoutsByRule(segment, row);
  case ShapeSource::Meta:
    return layoutsByMeta(segment, row);
  case ShapeSource::MetaSizes:
    break;
  }
  std::optional<ResultLayouts> layouts = layoutsByMeta(segment, row);
  if (layouts)
    for (ResultLayout &layout : *layouts)
      layout.strides.reset();
  return layouts;
}

} // namespace

bool isContiguous(const Metadata &metadata) {
  int64_t stride = 1;
  for (size_t d = metadata.sizes.size(); d-- > 0; stride *= std::max<int64_t>(metadata.sizes[d], 1))
    if (metadata.strides[d] != stride)
      return false;
  return true;
}

std::optional<Sizes> denseStrides(c10::IntArrayRef sizes, const Metadata &like) {
  if (sizes.size() != like.sizes.size())
    return std::nullopt;
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return like.strides[a] > like.strides[b]; });
  auto dense = [&](c10::IntArrayRef of) {
    Sizes strides;
    strides.resize(of.size());
    int64_t stride = 1;
    for (size_t i = order.size(); i-- > 0; stride *= std::max<int64_t>(of[order[i]], 1))
      strides[order[i]] = stride;
    return strides;
  };
  if (dense(like.sizes) != like.strides)
    return std::nullopt;
  return dense(sizes);
}

ShapeSource shapeSource(const Segment &segment, size_t row) {
  const RowInfo &info = segment.infos[row];
  if (std::optional<ResultLayouts> layouts = layoutsByRule(segment, row))
    if (agree(segment, info, *layouts, true))
      return ShapeSource::Rule;
  bool isInPlace = std::all_of(info.results.begin(), info.results.end(), [&](ValueId id) {
    return std::find(info.written.begin(), info.written.end(), id) != info.written.end();
  });
  if (isInPlace) // what is written keeps its sizes, or the operator refuses when it runs
    return ShapeSource::InPlace;
  std::optional<ResultLayouts> layouts = layoutsByMeta(segment, row);
  if (!layouts)
    return ShapeSource::None;
  if (agree(segment, info, *layouts, true))
    return ShapeSource::Meta;
  return agree(segment, info, *layouts, false) ? ShapeSource::MetaSizes : ShapeSource::None;
}

std::optional<std::vector<DerivedResult>> deriveResults(ShapeSource source, const Segment &base, size_t row,
                                                        const Segment &derived) {
  const RowInfo &info = derived.infos[row];
  std::optional<ResultLayouts> layouts = layoutsBy(source, derived, row);
  const std::vector<ValueId> made = madeBy(info);
  if (!layouts || layouts->size() != made.size())
    return std::nullopt;
  if (info.facts->base == kAttention && attentionKernel(base, row) != attentionKernel(derived, row))
    return std::nullopt;
  std::vector<DerivedResult> results;
  for (size_t i = 0; i < made.size(); ++i) {
    std::optional<Metadata> result = completed((*layouts)[i], base.values[made[i]].metadata);
    if (!result)
      return std::nullopt;
    results.push_back({made[i], std::move(*result)});
  }
  return results;
}

} // namespace graphopt::capture
