// The two operator tables, prims.def and aten.def, as rows that can be looked up by name.
//
// Prims are ours: no broadcast, no promotion, no aliasing; every row has a shape rule and a reference in ATen. aten.def
// has only those dispatcher operators that need more than their schema says.
#pragma once
#include "ir/graph.h"

#include <span>
#include <string_view>

namespace graphopt::ir {

/// How the result type follows from operands and attributes; computed by shape_rules.h.
enum class ShapeRule {
  SameAsFirst, Cast, Compare, Where, Broadcast, Reshape, Transpose, Slice, Pad, Concat, Reduce, ArgReduce, Full, Iota, Unknown
};
/// What fusion may do with the op.
enum class FusionClass { Point, Reduce, View, Create, Anchor, Opaque };
enum class AutocastClass { None, Low, Fp32, Fp32Opt, Promote, Banned };
enum class RecomputeClass { Cheap, Costly, Never, Random };

enum EffectBits : unsigned { kPure = 0, kCommutative = 1, kRandom = 2, kHostRead = 4, kOrdered = 8, kUninitialized = 16 };

struct PrimRow {
  std::string_view name;      // "prim.add"
  std::string_view operands;  // "a b", "x | dims": operand names, then attribute names
  unsigned effects;
  ShapeRule shape;
  FusionClass fusion;
  std::string_view reference; // the ATen operator the interpreter runs: "aten.add.Tensor"; "" = a case of its own
  std::string_view scalar;    // the scalar expression, for codegen: "$0 + $1"
};

struct AtenRow {
  std::string_view name;         // "aten.batch_norm"
  unsigned effects;              // beside what the schema says
  std::string_view hiddenWrites; // "3 4 if training": operand positions and the attribute that must be true; "" = none
  AutocastClass autocast;
  RecomputeClass recompute;
};

const PrimRow *findPrim(std::string_view irName);
const AtenRow *findAten(std::string_view irName);
std::span<const PrimRow> prims();
std::span<const AtenRow> atenRows();

} // namespace graphopt::ir
