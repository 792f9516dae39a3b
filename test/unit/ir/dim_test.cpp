// Dims: canonical form, text, ranges and simplification, the last two against evaluation on random
// expressions.
#include "ir/dim.h"
#include "ir/dim_math.h"

#include <graphopt/error.h>
#include <gtest/gtest.h>
#include <random>

namespace graphopt::ir {
namespace {

const Dim B = Dim::sym("B"), T = Dim::sym("T"), H = Dim::sym("H");

TEST(Dim, CanonicalFormSortsAndJoins) {
  EXPECT_EQ(toString(T * B * 2 + Dim::floorDiv(H + 1, 2) + -1), "2*B*T + floordiv(H + 1, 2) + -1");
  EXPECT_EQ(toString(B + T - B), "T");
  EXPECT_EQ(toString(B - B), "0");
  EXPECT_EQ(toString((B + 1) * (B - 1)), "B*B + -1");
  EXPECT_EQ(toString(Dim(0) - B), "-1*B");
  EXPECT_EQ((B + T) * H, H * T + H * B);
}

TEST(Dim, ConstantDivisionsRoundDown) {
  EXPECT_EQ(Dim::floorDiv(-7, 2), Dim(-4));
  EXPECT_EQ(Dim::mod(-7, 2), Dim(1));
  EXPECT_EQ(Dim::floorDiv(7, -2), Dim(-4));
  EXPECT_EQ(Dim::mod(7, -2), Dim(-1));
  EXPECT_EQ(Dim::floorDiv(B, 1), B);
  EXPECT_EQ(Dim::mod(B, 1), Dim(0));
}

TEST(Dim, WhatLeaves64BitsIsAUserError) {
  const int64_t largest = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  EXPECT_THROW(Dim(largest) + 1, Error);
  EXPECT_THROW(Dim(largest) * 2, Error);
  EXPECT_THROW(Dim::floorDiv(least, -1), Error);
  EXPECT_THROW(Dim(least) * B - B, Error);
  EXPECT_EQ(Dim::mod(least, -1), Dim(0));
  EXPECT_THROW(Dim::floorDiv(B, 0), Error);
  EXPECT_THROW(evaluate(Dim::mod(B, T), {{"B", 1}, {"T", 0}}), Error);
}

TEST(Dim, EvaluationNeedsEverySym) {
  EXPECT_EQ(evaluate(B * T + 3, {{"B", 4}, {"T", 5}}), 23);
  EXPECT_EQ(evaluate(B * T, {{"B", 4}}), std::nullopt);
  std::vector<std::string> names;
  (Dim::mod(T, B) + B).collectSyms(names);
  EXPECT_EQ(names, (std::vector<std::string>{"B", "T"}));
}

TEST(Dim, RangesPropagate) {
  std::vector<Sym> syms = {{"B", {2, 512}}, {"T", {0, DimRange::kInf}}};
  EXPECT_EQ(rangeOf(B * 4 - 1, syms), (DimRange{7, 2047}));
  EXPECT_EQ(rangeOf(Dim(0) - T, syms), (DimRange{DimRange::kNegInf, 0}));
  EXPECT_EQ(rangeOf(Dim::floorDiv(B, 3), syms), (DimRange{0, 170}));
  EXPECT_EQ(rangeOf(Dim::mod(T, 8), syms), (DimRange{0, 7}));
  EXPECT_EQ(rangeOf(Dim::mod(T, B), syms), (DimRange{0, 511}));
  EXPECT_EQ(rangeOf(H, syms), (DimRange{DimRange::kNegInf, DimRange::kInf}));
  EXPECT_EQ(rangeOf(B * T, syms), (DimRange{0, DimRange::kInf}));
}

TEST(Dim, RangesThatLeave64BitsAreLoosened) {
  std::vector<Sym> syms = {{"B", {1, DimRange::kInf - 1}}};
  EXPECT_EQ(rangeOf(B * B * B, syms), (DimRange{1, DimRange::kInf}));
  EXPECT_EQ(rangeOf(Dim(0) - B * B, syms), (DimRange{DimRange::kNegInf, -1}));
}

TEST(Dim, SimplifiesWhatTheRangesProve) {
  std::vector<Sym> syms = {{"B", {0, 7}}, {"T", {1, DimRange::kInf}}, {"H", {0, DimRange::kInf}}};
  auto text = [&](const Dim &dim) { return toString(simplify(dim, syms)); };
  EXPECT_EQ(text(Dim::floorDiv(B * 4, 4)), "B");
  EXPECT_EQ(text(Dim::mod(B, 8)), "B");
  EXPECT_EQ(text(Dim::mod(H, 8)), "mod(H, 8)");
  EXPECT_EQ(text(Dim::floorDiv(B, 8)), "0");
  EXPECT_EQ(text(Dim::floorDiv(Dim::floorDiv(H, 2), 3)), "floordiv(H, 6)");
  EXPECT_EQ(text(Dim::floorDiv(H * 6 + 2, 4)), "H + floordiv(H + 1, 2)");
  EXPECT_EQ(text(Dim::floorDiv(H * T, T)), "H");
  EXPECT_EQ(text(Dim::mod(H * T + 3 * T, T)), "0");
  EXPECT_EQ(text(Dim::floorDiv(T * H, H)), "floordiv(H*T, H)"); // H may be 0
  EXPECT_EQ(text(Dim::floorDiv(H, 4) * 4 + Dim::mod(H, 4)), "H");
  EXPECT_EQ(text(Dim::mod(Dim::mod(H, 12), 4)), "mod(H, 4)");
  EXPECT_EQ(text(Dim::mod(H * 6, 4)), "2*mod(H, 2)");
  EXPECT_TRUE(provablyEqual(Dim::floorDiv(H * 2 + 1, 2), H, syms));
  EXPECT_FALSE(provablyEqual(Dim::floorDiv(H, 2) * 2, H, syms));
}

/// Random expressions; divisors are positive.
class RandomDims {
public:
  explicit RandomDims(unsigned seed) : random_(seed) {}
  int64_t number(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random_); }

  Dim dim(int depth) {
    if (depth == 0)
      return number(0, 2) == 0 ? Dim(number(-9, 9))
                               : Dim::sym(std::string(1, static_cast<char>('A' + number(0, 2))));
    switch (number(0, 5)) {
    case 0:
    case 1:
      return dim(depth - 1) + dim(depth - 1);
    case 2:
      return dim(depth - 1) * Dim(number(-4, 6));
    case 3:
      return dim(depth - 1) * dim(depth - 2 < 0 ? 0 : depth - 2);
    case 4:
      return Dim::floorDiv(dim(depth - 1), divisor());
    }
    return Dim::mod(dim(depth - 1), divisor());
  }

private:
  Dim divisor() { return number(0, 2) == 0 ? Dim::sym("A") + number(1, 3) : Dim(number(1, 12)); }
  std::mt19937 random_;
};

TEST(Dim, SimplifyAndRangesAgreeWithEvaluation) {
  for (unsigned seed = 0; seed < 4000; ++seed) {
    RandomDims random(seed);
    std::vector<Sym> syms = {{"A", {0, random.number(0, 9)}}, {"B", {-3, 4}}, {"C", {1, DimRange::kInf}}};
    Dim dim = random.dim(static_cast<int>(random.number(1, 5)));
    Dim simple = simplify(dim, syms);
    DimRange range = rangeOf(dim, syms);
    for (int sample = 0; sample < 12; ++sample) {
      std::vector<SymValue> values = {{"A", random.number(0, syms[0].range.hi)},
                                      {"B", random.number(-3, 4)},
                                      {"C", sample == 0 ? 1 : random.number(1, 1000)}};
      int64_t value = *evaluate(dim, values);
      ASSERT_EQ(evaluate(simple, values), value)
          << "seed " << seed << ": " << toString(dim) << " -> " << toString(simple);
      ASSERT_TRUE(range.lo <= value && value <= range.hi)
          << "seed " << seed << ": " << toString(dim) << " = " << value << " outside [" << range.lo << ", "
          << range.hi << "]";
    }
  }
}

} // namespace
} // namespace graphopt::ir
