// A segment in the language of the compiler.
#pragma once
#include "capture/segment.h"
#include "capture/segment_sizes.h"
#include "ir/graph.h"

namespace graphopt::capture {

/// The segment as a captured graph, raw form: live-ins declared (parameters and buffers by their paths), one
/// op a row, results that no row uses returned, and a guard on each live-in's metadata.
///
/// `others` of its family: sizes and integers in which they differ become expressions over syms, where two
/// dims that are equal in all of them share one. Those whose flags are others are left out.
/// `returned`: these values are returned instead, in order.
ir::Graph graphOf(const Segment &segment, const std::vector<const Segment *> &others, const std::string &name,
                  const std::vector<ValueId> *returned = nullptr);

/// The same with what its syms are in other segments of the family.
struct SizedGraph {
  ir::Graph graph;
  SegmentSizes sizes;
};
SizedGraph sizedGraphOf(const Segment &segment, const std::vector<const Segment *> &others,
                        const std::string &name, const std::vector<ValueId> *returned = nullptr);

} // namespace graphopt::capture
