// One example a shape rule, over operands of sizes [B, 8] so that every rule sees a sym.
#include "prim_examples.h"

#include "ir/shape_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace graphopt::ir {

namespace {
using Bad = std::vector<std::pair<std::string, std::string>>;

/// Declarations %a, %b, %c of the row's dtype, and others that examples need.
std::string declarationsFor(const std::string &dtype) {
  std::string text = "  sym B in [2, 64]\n";
  for (const char *name : {"a", "b", "c"})
    text += fmt::format("  input %{}: {}[B, 8]\n", name, dtype);
  text += fmt::format("  input %short: {}[B, 7]\n  input %wide: {}[B, 1]\n", dtype, dtype);
  return text + "  input %mask: bool[B, 8]\n  input %index: i64[B, 8]\n  input %places: i64[3]\n"
                "  input %other: i8[B, 8]\n  input %complex: c64[B, 8]\n";
}

/// "(%a, %b, %c)" for a row of three operands, with `last` in the last place when given.
std::string callOf(size_t count, const std::string &last = "") {
  std::vector<std::string> names = {"%a", "%b", "%c"};
  names.resize(count);
  if (!last.empty())
    names.back() = last;
  return fmt::format("({})", fmt::join(names, ", "));
}

/// An operand whose dtype the row refuses; "" when it accepts all.
std::string refusedOperand(const PrimRow &row) {
  if (!accepts(row.accepts, DType::Bool))
    return "%mask";
  return accepts(row.accepts, DType::ComplexFloat) ? "" : "%complex";
}

Bad badPointCalls(const PrimRow &row, size_t count) {
  Bad bad = {{callOf(count - 1), fmt::format("expected {} operands, got {}", count, count - 1)},
             {callOf(count) + " {foo=1}", "unknown attribute 'foo'"}};
  if (std::string refused = refusedOperand(row); !refused.empty())
    bad.push_back({callOf(count, refused), fmt::format("expected {}", toString(row.accepts))});
  if (count == 1)
    return bad;
  bad.push_back({callOf(count, "%short"), "like the other operands"});
  bad.push_back({callOf(count, "\"one\""), "which is no"});
  if (accepts(row.accepts, DType::Char))
    bad.push_back({callOf(count, "%other"), "like the other operands"});
  return bad;
}

PrimExample pointExample(const PrimRow &row, const std::string &result) {
  size_t count = signatureOf(row).operands.size();
  return {callOf(count), result, badPointCalls(row, count)};
}

PrimExample sliceExample(const std::string &dtype) {
  return {"(%a) {dim=1, start=1, end=8, step=3}",
          dtype + "[B, 3]",
          {{"(%a) {dim=2, start=1, end=8, step=3}", "expected a dim below 2"},
           {"(%a) {dim=-1, start=1, end=8, step=3}", "expected a dim below 2"},
           {"(%a) {dim=1, start=1, end=9, step=3}", "[1, 9) does not lie within dim 1"},
           {"(%a) {dim=1, start=-1, end=8, step=3}", "[-1, 8) does not lie within dim 1"},
           {"(%a) {dim=1, start=5, end=4, step=1}", "[5, 4) ends before it starts"},
           {"(%a) {dim=1, start=1, end=8, step=0}", "expected a constant of at least 1"},
           {"(%a) {dim=0, start=0, end=3, step=1}", "does not lie within dim 0"},
           {"(%a) {dim=1, start=1, end=8}", "missing attribute 'step'"}}};
}

PrimExample reduceExample(const std::string &dtype) {
  return {"(%a) {dim=[1], keepdim=true}",
          dtype + "[B, 1]",
          {{"(%a) {dim=[1, 1], keepdim=true}", "names dim 1 twice"},
           {"(%a) {dim=[2], keepdim=true}", "expected dims below 2"},
           {"(%a) {dim=[], keepdim=true}", "names no dim to reduce"},
           {"(%a) {dim=1, keepdim=true}", "expected a list of integers"},
           {"(%a) {dim=[1], keepdim=1}", "expected true or false"}}};
}

PrimExample reduceOneExample(const std::string &result) {
  return {"(%a) {dim=1, keepdim=false}",
          result + "[B]",
          {{"(%a) {dim=2, keepdim=false}", "expected a dim below 2"},
           {"(%a) {dim=[1], keepdim=false}", "expected an integer"}}};
}
} // namespace

std::string exampleDtype(const PrimRow &row) {
  switch (row.accepts) {
  case Accepts::Bits:
  case Accepts::Integer:
    return "i64";
  case Accepts::Bool:
    return "bool";
  case Accepts::Any:
  case Accepts::Number:
  case Accepts::Ordered:
  case Accepts::Real:
  case Accepts::Inexact:
  case Accepts::Floating:
  case Accepts::Summable:
    return "f32";
  }
  return "";
}

PrimExample exampleOf(const PrimRow &row) {
  std::string dtype = exampleDtype(row);
  switch (row.shape) {
  case ShapeRule::Same:
    return pointExample(row, dtype + "[B, 8]");
  case ShapeRule::Predicate:
    return pointExample(row, "bool[B, 8]");
  case ShapeRule::Cast:
    return {"(%a) {dtype=bf16}",
            "bf16[B, 8]",
            {{"(%a) {dtype=5}", "expected a dtype"}, {"(1) {dtype=f32}", "operand #0 is no value"}}};
  case ShapeRule::Where:
    return {"(%mask, %a, %b)",
            dtype + "[B, 8]",
            {{"(%a, %a, %b)", "expected a bool condition"},
             {"(%mask, %short, %short)", "like the choices"},
             {"(%mask, %a, %index)", "like the other operands"},
             {"(%mask, 1.0, 2.0)", "expected a value among the operands"}}};
  case ShapeRule::Broadcast:
    return {"(%wide) {size=[3, B, 8]}",
            dtype + "[3, B, 8]",
            {{"(%a) {size=[8]}", "expected at least the operand's 2"},
             {"(%a) {size=[B, 16]}", "dim 1 cannot become 16"},
             {"(%a) {size=[-1, 8]}", "expected no negative size"}}};
  case ShapeRule::Reshape:
    return {"(%a) {shape=[2, 4*B]}",
            dtype + "[2, 4*B]",
            {{"(%a) {shape=[2, 5*B]}", "operand #0 has 8*B elements"},
             {"(%a) {shape=[-1]}", "expected no negative size"}}};
  case ShapeRule::Transpose:
    return {"(%a) {dims=[1, 0]}",
            dtype + "[8, B]",
            {{"(%a) {dims=[1]}", "expected all 2"}, {"(%a) {dims=[1, 1]}", "names dim 1 twice"}}};
  case ShapeRule::Slice:
    return sliceExample(dtype);
  case ShapeRule::Pad:
    return {"(%a) {pad=[1, 2, 0, 3], value=0.0}",
            dtype + "[B + 3, 11]",
            {{"(%a) {pad=[1], value=0.0}", "expected two a dim"},
             {"(%a) {pad=[1, 1, 1, 1, 1, 1], value=0.0}", "for at most 2 dims"},
             {"(%a) {pad=[-1, 1], value=0.0}", "expected no negative entry"},
             {"(%a) {pad=[1, 1], value=true}", "which is no f32"}}};
  case ShapeRule::Flip:
    return {"(%a) {dims=[1]}", dtype + "[B, 8]", {{"(%a) {dims=[2]}", "expected dims below 2"}}};
  case ShapeRule::Concat:
    return {"([%a, %short, %wide]) {dim=1}",
            dtype + "[B, 16]",
            {{"([%a, %short]) {dim=0}", "list item #1"},
             {"([%a, %index]) {dim=0}", "list item #1"},
             {"([]) {dim=0}", "expected at least one item"},
             {"(%a) {dim=0}", "expected one list operand 'xs'"}}};
  case ShapeRule::Reduce:
    return reduceExample(dtype);
  case ShapeRule::ReduceOne:
    return reduceOneExample(dtype);
  case ShapeRule::ArgReduce:
    return reduceOneExample("i64");
  case ShapeRule::Full:
    return {"() {size=[B, 2], fill_value=0.5, dtype=f32}",
            "f32[B, 2]",
            {{"() {size=[B, 2], fill_value=0.5, dtype=i64}", "which is no i64"},
             {"(%a) {size=[B, 2], fill_value=0.5, dtype=f32}", "expected 0 operands, got 1"}}};
  case ShapeRule::Iota:
    return {"() {start=2, end=10, step=3, dtype=i64}",
            "i64[3]",
            {{"() {start=2, end=1, step=3, dtype=i64}", "ends before it starts"},
             {"() {start=2, end=10, step=-1, dtype=i64}", "expected a constant of at least 1"},
             {"() {start=2, end=10, step=1, dtype=bool}", "expected an integer or floating dtype"}}};
  case ShapeRule::Gather:
    return {"(%a, %index) {dim=1}",
            dtype + "[B, 8]",
            {{"(%a, %a) {dim=1}", "expected i64 indices"},
             {"(%wide, %index) {dim=0}", "expected no dim but 0 to be longer"},
             {"(%a, %places) {dim=0}", "expected no dim but 0 to be longer"}}};
  case ShapeRule::IndexSelect:
    return {"(%a, %places) {dim=1}",
            dtype + "[B, 3]",
            {{"(%a, %index) {dim=1}", "expected one dim"}, {"(%a, %a) {dim=1}", "expected i64 indices"}}};
  case ShapeRule::Scatter:
    return {"(%a, %index, %b) {dim=1}",
            dtype + "[B, 8]",
            {{"(%a, %index, %short) {dim=1}", "like the index"},
             {"(%a, %index, %other) {dim=1}", "to match operand #0"},
             {"(%wide, %index, %a) {dim=0}", "expected no dim but 0 to be longer"}}};
  }
  return {};
}

std::string graphText(const PrimRow &row, const PrimExample &example, const std::string &call) {
  return fmt::format("graph @g stage=core {{\n{}  %r: {} = {}{}\n  return %r\n}}\n",
                     declarationsFor(exampleDtype(row)), example.result, row.name, call);
}

} // namespace graphopt::ir
