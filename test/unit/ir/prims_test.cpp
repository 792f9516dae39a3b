// Walks prims.def: every row has what its columns promise. Its reference is checked where ATen is
// (prim_reference_test).
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/scalar_expr.h"
#include "ir/shape_rules.h"
#include "ir/verify.h"

#include "prim_examples.h"

#include <gtest/gtest.h>
#include <numeric>

using namespace graphopt::ir;

namespace {
std::string errorsOf(const std::string &text) {
  Diagnostics diagnostics("g.gir", text);
  auto graphs = parseGraphs(diagnostics);
  if (graphs)
    verify(graphs->at(0), diagnostics);
  return diagnostics.render();
}

/// How many elements the expression combines: the operands, or two partial results.
size_t slots(const PrimRow &row) {
  return row.fusion == FusionClass::Reduce ? 2 : signatureOf(row).operands.size();
}

/// Point prims compute an element, creations too; reductions do unless they look for a position.
bool needsScalar(const PrimRow &row) {
  bool reduces = row.fusion == FusionClass::Reduce && row.shape != ShapeRule::ArgReduce;
  return reduces || row.fusion == FusionClass::Point || row.fusion == FusionClass::Create;
}
} // namespace

TEST(Prims, NamesAreFoundAndReferencesNamed) {
  for (const PrimRow &row : prims()) {
    EXPECT_EQ(findPrim(row.name), &row);
    EXPECT_TRUE(row.reference.starts_with("aten.")) << row.name;
    EXPECT_EQ(row.effects & ~kCommutative, 0u) << row.name;
  }
  EXPECT_EQ(findPrim("prim.relu"), nullptr);
}

TEST(Prims, ScalarExpressionsUseExactlyTheirOperandsAndAttributes) {
  for (const PrimRow &row : prims()) {
    ASSERT_EQ(needsScalar(row), !row.scalar.empty()) << row.name;
    if (row.scalar.empty())
      continue;
    auto parsed = parseScalar(row.scalar);
    ASSERT_TRUE(std::holds_alternative<ScalarExpr>(parsed))
        << row.name << ": " << std::get<std::string>(parsed);
    const ScalarExpr &expr = std::get<ScalarExpr>(parsed);
    std::vector<size_t> all(slots(row));
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(operandsOf(expr), all) << row.name;
    std::vector<std::string_view> attrs = signatureOf(row).attrs;
    for (const std::string &name : attributesOf(expr))
      EXPECT_NE(std::find(attrs.begin(), attrs.end(), name), attrs.end()) << row.name << " has no " << name;
  }
}

TEST(Prims, CommutativeRowsHaveTwoOperands) {
  for (const PrimRow &row : prims()) {
    bool isCommutative = (row.effects & kCommutative) != 0;
    EXPECT_TRUE(!isCommutative || signatureOf(row).operands.size() == 2) << row.name;
  }
}

TEST(Prims, GoodCallsAreAccepted) {
  for (const PrimRow &row : prims()) {
    PrimExample example = exampleOf(row);
    EXPECT_EQ(errorsOf(graphText(row, example, example.call)), "") << row.name;
  }
}

TEST(Prims, BadCallsAreRefusedWithTheirReason) {
  for (const PrimRow &row : prims()) {
    PrimExample example = exampleOf(row);
    EXPECT_FALSE(example.bad.empty()) << row.name;
    for (const auto &[call, reason] : example.bad) {
      std::string errors = errorsOf(graphText(row, example, call));
      EXPECT_NE(errors.find(reason), std::string::npos) << row.name << call << ": expected " << reason << "\n"
                                                        << errors;
    }
  }
}

TEST(Prims, AnotherResultTypeIsRefused) {
  for (const PrimRow &row : prims()) {
    PrimExample example = exampleOf(row);
    example.result = "f64[3, 3, 3]";
    std::string errors = errorsOf(graphText(row, example, example.call));
    EXPECT_NE(errors.find("has result '%r' of type f64[3, 3, 3], expected"), std::string::npos)
        << row.name << errors;
  }
}

TEST(Prims, LiteralsFitTheDtypeOfTheOtherOperands) {
  auto errorOf = [](const std::string &dtype, const std::string &literal) {
    return errorsOf("graph @g stage=core {\n  input %x: " + dtype + "[2]\n  %y: " + dtype +
                    "[2] = prim.bitwise_and(%x, " + literal + ")\n  return %y\n}\n");
  };
  EXPECT_EQ(errorOf("i32", "3"), "");
  EXPECT_EQ(errorOf("bool", "true"), "");
  EXPECT_NE(errorOf("i32", "0.5").find("operand #1 is 0.5, which is no i32"), std::string::npos);
  EXPECT_NE(errorOf("i32", "true").find("which is no i32"), std::string::npos);
  EXPECT_NE(errorOf("bool", "1").find("which is no bool"), std::string::npos);
}

TEST(Prims, LazilyConjugatedOperandsAreRefused) {
  std::string errors = errorsOf(
      "graph @g stage=core {\n  input %x: c64[2] conj\n  %y: c64[2] = prim.neg(%x)\n  return %y\n}\n");
  EXPECT_NE(errors.find("operand #0 is lazily conjugated: make it plain first"), std::string::npos) << errors;
}

TEST(Prims, SizesBeyond64BitsAreRefused) {
  std::string errors =
      errorsOf("graph @g stage=core {\n  input %x: f32[1]\n  %y: f32[1] = prim.broadcast(%x) "
               "{size=[4611686018427387904, 4611686018427387904, 1]}\n"
               "  %z: f32[1] = prim.reshape(%x) {shape=[4611686018427387904, 4611686018427387904]}\n"
               "  return %y\n}\n");
  EXPECT_NE(errors.find("'prim.reshape' op"), std::string::npos) << errors;
}
