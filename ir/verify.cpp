// The invariants of the IR. A graph that breaks none may be printed, run, and handed to any pass that its
// stage fits. Each has a case in test/ir/invalid.gir or, where the parser already refuses the text, in
// verify_test.cpp.
//
// Structure (verify_structure.cpp)
//   S1  Value names are unique and not empty.
//   S2  A value is defined before it is used: a declaration, or a result of an earlier op of the same block.
//   S3  The body of a group or update sees its captures and its own values only. Captures are plain values,
//   each listed
//       once and used in the body.
//   S4  The graph's body ends with its only return, a region's body with its only yield; groups and updates
//   have a body,
//       nothing else has.
//   S5  A yield gives one value for each result of its region, of the same type, and made in the region. That
//   of a
//       vjp gives three lists: outputs, as many cotangents, and one value for each result. A redraw begins
//       with graphopt::set_rng_state.
//   S6  A return gives values and nones. Ambient states exist.
//
// Types (verify_types.cpp)
//   T1  Syms have a name in capitals of their own and a range that is not empty; every sym used is declared.
//   T2  A tensor has one stride a dim, no provably negative size, and no strides when they are the contiguous
//   ones.
//       Scalars have neither sizes nor strides; only a tensor without dims is a wrapped number.
//   T3  Params, buffers and outside values are tensors. Only declarations say `grad`.
//   T4  A hostval has a content and a const either a content or a hash, which fits the type; nothing else has
//   one.
//
// Guards (verify_guards.cpp)
//   G1  Guards are numbered 0, 1, 2 ... in order.
//   G2  The kind is a row of guards.def; operands, comparison and expected value are as the row says.
//   G3  Guards speak of declared values, and a meta guard agrees with the declared dtype and sizes.
//
// Operators (verify_ops.cpp)
//   O1  A call has a namespace and a name, and no attribute twice.
//   O2  prim.x is a row of prims.def; its operands and attributes satisfy the row, and the type that the
//   shape rule
//       computes is the one written (dtype and sizes; the layout is free).
//   O3  Other operators take no literals: scalars are attributes.
//   O4  An operator that the catalog knows has the operands, attributes and results of its schema. Results
//   that are
//       written arguments are left out, since they are the operand itself.
//
// Effects (verify_effects.cpp)
//   E1  & and &mut stand on tensors, at calls; a return may have &. Prims have none. An op with & has a
//   tensor result. E2  &mut stands where the stage allows writes, or in an update on (a view of) a value made
//   in it. Constants and
//       hostvals are never written.
//   E3  What the schema or, outside the raw form, aten.def says is written has &mut; with a known schema,
//   nothing else. E4  An update yields at least one value that it writes, with dtype and sizes of a capture.
//   A group writes nothing. E5  What a region yields is no view of a capture. E6  Write-backs follow all
//   other ops. The target is a declared tensor that host code may write, once; the source has
//       its dtype and sizes, and is no view of a value written back before.
//   E7  A returned & value is a declaration or a view.
//
// Legality by stage (verify_stage.cpp, stages.def)
//   L1  Kinds of ops, kinds of operators, views and writes are those that the row of the stage allows.
//   L2  Groups have a name of their own and a kind of stages.def, and hold prims only. Regions do not nest.
//   L3  Borders are numbered 0, 1, 2 ... in order.
#include "ir/verifier.h"

#include "ir/print.h"

#include <graphopt/error.h>

namespace graphopt::ir {

std::string_view Verifier::label(const Op &op) {
  switch (op.kind) {
  case Op::Kind::Call:
    return op.name;
  case Op::Kind::Group:
    return "group";
  case Op::Kind::Update:
    return "update";
  case Op::Kind::Vjp:
    return "vjp";
  case Op::Kind::Redraw:
    return "redraw";
  case Op::Kind::Border:
    return "border";
  case Op::Kind::Writeback:
    return "writeback";
  case Op::Kind::Return:
    return "return";
  case Op::Kind::Yield:
    return "yield";
  }
  return "";
}

bool verify(const Graph &graph, Diagnostics &diagnostics, const OpCatalog *catalog) {
  Verifier verifier(graph, diagnostics, catalog);
  verifier.checkStructure();
  if (verifier.errors() > 0)
    return false;
  verifier.checkTypes();
  verifier.checkGuards();
  verifier.checkOperators();
  verifier.checkEffects(AliasInfo(graph));
  verifier.checkStage();
  return verifier.errors() == 0;
}

void verifyOrThrow(const Graph &graph, const OpCatalog *catalog) {
  Diagnostics diagnostics(graph.file);
  bool valid = verify(graph, diagnostics, catalog);
  GO_ASSERT(valid, "the graph breaks its invariants\n" + diagnostics.render() + print(graph));
}

} // namespace graphopt::ir
