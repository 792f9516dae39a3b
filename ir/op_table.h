// The two operator tables, prims.def and aten.def, as rows that can be looked up by name.
//
// Prims are ours: no broadcast, no promotion, no aliasing; every row has a shape rule and a reference in
// ATen. aten.def has only those dispatcher operators that need more than their schema says.
#pragma once
#include "ir/graph.h"

#include <span>
#include <string_view>
#include <vector>

namespace graphopt::ir {

/// How the result type follows from operands and attributes; computed by shape_rules.h.
enum class ShapeRule {
  Same,        ///< all operands alike, result as well
  Cast,        ///< as the operand, with the dtype attribute
  Predicate,   ///< all operands alike, result bool
  Where,       ///< bool condition, two alike, result as they
  Broadcast,   ///< to the size attribute: dims of size 1 stretch, new dims in front
  Reshape,     ///< same elements in the shape attribute
  Transpose,   ///< dims permuted
  Slice,       ///< one dim cut to [start, end) by step
  Pad,         ///< a constant around the dims, last dim first
  Flip,        ///< some dims reversed
  Concat,      ///< a list along one dim
  Reduce,      ///< a list of dims reduced
  ReduceOne,   ///< one dim reduced
  ArgReduce,   ///< one dim reduced to a position: i64
  Full,        ///< a constant of the size and dtype attributes
  Iota,        ///< start, start + step ... below end
  Gather,      ///< as the index operand, with the dtype of the first
  IndexSelect, ///< one dim replaced by the length of the index
  Scatter,     ///< as the first operand; index and source alike in size
};
/// Which dtypes the data operands of a prim may have.
enum class Accepts {
  Any,
  Number,  ///< all but bool
  Ordered, ///< all but complex
  Real,    ///< integers and floating
  Inexact, ///< floating and complex
  Floating,
  Bits, ///< integers and bool
  Integer,
  Bool,
  Summable, ///< floating, complex, i64: what a sum does not promote
};
/// What fusion may do with the op.
enum class FusionClass { Point, Reduce, View, Create, Gather };
/// What autocast does to a dispatcher operator's operands (the list of CUDA and most devices).
enum class AutocastClass {
  None,
  Low,        ///< to the low precision dtype
  Fp32,       ///< to f32
  Fp32Opt,    ///< runs with dtype=f32 when no dtype was given
  Fp32Append, ///< as Fp32Opt, through another overload that has a dtype
  Promote,    ///< to the widest dtype among the operands
  Banned      ///< refused
};
/// What recomputation thinks of the operator: Never for saved results that are dear, Random for draws, which
/// need the generator's state of the first run.
enum class RecomputeClass { Unknown, Cheap, Costly, Never, Random };

enum EffectBits : unsigned {
  kPure = 0,
  kCommutative = 1,
  kRandom = 2,
  kHostRead = 4,
  kOrdered = 8,
  kUninitialized = 16
};

struct PrimRow {
  std::string_view name;     // "prim.add"
  std::string_view operands; // "a b", "x | dims", "xs... | dim": operand names, then attribute names
  unsigned effects;
  ShapeRule shape;
  Accepts accepts;
  FusionClass fusion;
  std::string_view
      reference; // the ATen operator that computes it: "aten.add.Tensor", attributes by the same names
  std::string_view scalar; // the expression of one element, or of combining two partial results: "$0 + $1"
};

/// The operands column taken apart. Every attribute is required: prims have no defaults.
struct PrimSignature {
  std::vector<std::string_view> operands;
  std::vector<std::string_view> attrs;
  bool list = false; ///< one operand, a list of values
};
PrimSignature signatureOf(const PrimRow &row);

struct AtenRow {
  std::string_view name;   // "aten.batch_norm"; "aten.rand.*" stands for every overload
  unsigned effects;        // beside what the schema says
  std::string_view writes; // operand positions written although the schema does not say so: "3 4"
  std::string_view when; // effects and writes hold only then: conditionHolds() in effects.h has the language
  AutocastClass autocast;
  RecomputeClass recompute;
};

/// nullptr when there is no such prim.
const PrimRow *findPrim(std::string_view irName);
/// The row of that overload, else the row of its family, else nullptr: the schema says all.
const AtenRow *findAten(std::string_view irName);
std::span<const PrimRow> prims();
std::span<const AtenRow> atenRows();
/// Whether aten.def has the operator, or its family, among those that take their operands in any memory
/// order.
bool takesAnyOrder(std::string_view irName);
std::span<const std::string_view> anyOrderRows();

} // namespace graphopt::ir
