// What the results of a row look like when its operands, or its integers, are others than those recorded:
// worked out without running a kernel.
//
// Two sources: rules of our own for sizes (size_rules.cpp), and LibTorch's own shape functions, run on
// tensors without memory (meta_run.cpp). Neither is believed unless it reproduces what was observed when the
// row was recorded.
#pragma once
#include "capture/segment.h"

#include <optional>

namespace graphopt::capture {

using Sizes = c10::SmallVector<int64_t, 5>;

/// One result that a row makes.
struct ResultLayout {
  Sizes sizes;
  std::optional<Sizes> strides; ///< none: as dense as the recorded one, in the same order of dims
  int64_t offset = 0;
};
using ResultLayouts = std::vector<ResultLayout>;

/// By a rule of our own for sizes. Nothing: there is none, or it does not fit the arguments.
std::optional<ResultLayouts> layoutsByRule(const Segment &segment, size_t row);
/// By LibTorch's shape functions. Also nothing when results would share memory otherwise than the segment
/// says, or when the operator refuses its arguments.
std::optional<ResultLayouts> layoutsByMeta(const Segment &segment, size_t row);

/// Finds the source that reproduces the row's recorded results.
ShapeSource shapeSource(const Segment &segment, size_t row);
struct DerivedResult {
  ValueId value = 0;
  Metadata metadata;
};
/// The results of `derived`'s row, which is `base`'s with other sizes or integers. Nothing: nothing is known.
std::optional<std::vector<DerivedResult>> deriveResults(ShapeSource source, const Segment &base, size_t row,
                                                        const Segment &derived);

/// In C order: as text has it, no strides are said.
bool isContiguous(const Metadata &metadata);

/// Strides of a dense tensor of these sizes whose dims are ordered in memory as in `like`; nothing when
/// `like` is not dense.
std::optional<Sizes> denseStrides(c10::IntArrayRef sizes, const Metadata &like);

} // namespace graphopt::capture
