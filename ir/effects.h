// What an operator does beyond its results: read from the tables and the schema, never decided inside a pass.
#pragma once
#include "ir/graph.h"
#include "ir/op_catalog.h"

#include <string_view>
#include <vector>

namespace graphopt::ir {

struct Effects {
  bool writes = false; ///< writes an operand: &mut in the text, or hidden (batch norm's running statistics)
  bool random = false; ///< draws from a generator: order among random ops is kept, none is merged or dropped
  bool hostRead = false; ///< the host sees a value (item, nonzero's size)
  bool ordered = false;  ///< collectives and unknown operators with effects: never moved, merged or dropped
  bool uninitialized = false; ///< contents of the result are arbitrary (empty): never merged
};

/// Operators of graphopt's own: the state of a device's default generator as a tensor (u8, on the CPU), and
/// the generator put into such a state. Registered by runtime/rng.cpp.
inline constexpr std::string_view kRngState = "graphopt::rng_state";
inline constexpr std::string_view kSetRngState = "graphopt::set_rng_state";

/// Effects of one op. A row of aten.def says all about draws and host reads; without one the catalog's tags
/// do. Writes are the union of marks, schema and row. Without a catalog an operator without a row is what its
/// marks say. A region has the effects of its body, except writes, which stay inside; nor is a Redraw random:
/// generators are afterwards as they were. A Vjp is where operators of others run, whose gradients may draw.
Effects effectsOf(const Op &op, const OpCatalog *catalog);

/// Positions among op.operands() that the op writes although its schema does not say so: batch_norm's
/// running_mean and running_var when training. From aten.def; operands that are none are left out.
std::vector<size_t> hiddenWrites(const Op &op);

/// The devices whose generators the body of a Vjp or Redraw sets.
std::vector<Device> redrawsOn(const Op &op);
/// Whether a call may draw: by its effects, or since an operator of others need not say.
bool mayDraw(const Op &call, const OpCatalog *catalog);

/// Whether a condition of aten.def ("train p", "training?", "!output_size?", "$1m") holds for the op's
/// attributes and operands. What is not known counts as holding.
bool conditionHolds(std::string_view condition, const Op &op);

/// No write, no draw, no host read, no order: the op may be dropped when unused.
bool isRemovable(const Op &op, const OpCatalog *catalog);
/// Removable, and a second run gives the same value: two equal ones may be merged.
bool isMergeable(const Op &op, const OpCatalog *catalog);

} // namespace graphopt::ir
