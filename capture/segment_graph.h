// A segment in the language of the compiler.
#pragma once
#include "capture/segment.h"
#include "ir/graph.h"

namespace graphopt::capture {

/// The segment as a captured graph, raw form: live-ins declared (parameters and buffers by their paths), one
/// op a row, results that no row uses returned, and a guard on each live-in's metadata.
ir::Graph graphOf(const Segment &segment, const std::string &name);

} // namespace graphopt::capture
