// Literals, names, dtypes, devices and types: each text reads back as what it was.
#include "ir/attr.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/quote.h"
#include "ir/type.h"

#include <cmath>
#include <graphopt/error.h>
#include <gtest/gtest.h>
#include <random>

namespace graphopt::ir {
namespace {

/// The literal after a trip through a whole graph's text.
Attr reread(const Attr &attr) {
  Graph graph;
  graph.syms.push_back({"B", {0, DimRange::kInf}});
  graph.append(graph.body(), Op::Kind::Call, "aten.x", {}, {{"v", attr}});
  Graph copy = parseGraph(print(graph));
  return *(*copy.body().begin())->attr("v");
}

TEST(Attr, EveryKindReadsBack) {
  std::vector<Attr> all = {
      Attr(),
      Attr::boolean(true),
      Attr::boolean(false),
      Attr::integer(std::numeric_limits<int64_t>::min()),
      Attr::integer(std::numeric_limits<int64_t>::max()),
      Attr::integer(Dim::sym("B") * 2 + Dim::floorDiv(Dim::sym("B"), 3) + -1),
      Attr::real(1.0),
      Attr::real(-0.0),
      Attr::real(1e-05),
      Attr::real(INFINITY),
      Attr::real(-INFINITY),
      Attr::real(NAN),
      Attr::real(std::numeric_limits<double>::denorm_min()),
      Attr::real(std::numeric_limits<double>::max()),
      Attr::complex(1, -2),
      Attr::complex(-0.0, NAN),
      Attr::string(""),
      Attr::string("a \"quoted\" \\ text\n\t\r\x01\x7f\xff \xc3\xa9 [[ {{ // no comment"),
      Attr::string(std::string("nul\0inside", 10)),
      Attr::word("channels_last"),
      Attr::word("cuda:0"),
      Attr::word("bf16"),
      Attr::list({}),
      Attr::list({Attr::list({}), Attr::list({Attr::integer(1), Attr()}), Attr::string("x")}),
      Attr::ints({1, 2, 3}),
      Attr::opaque("Generator"),
      Attr::opaque(""),
  };
  for (const char *word : {"true", "none", "inf", "nan", "complex", "opaque", "word", "floordiv", "mod",
                           "file", "Odd", "", "two words", "a:", "::a", "3a", "a%b"})
    all.push_back(Attr::word(word));
  for (const Attr &attr : all)
    EXPECT_EQ(reread(attr), attr) << toString(attr);
}

TEST(Attr, RandomFloatsAndBytesReadBack) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 3000; ++i) {
    double value = std::bit_cast<double>(random());
    ASSERT_EQ(reread(Attr::real(value)), Attr::real(value)) << i;
    std::string bytes;
    for (auto n = random() % 12; n > 0; --n)
      bytes += static_cast<char>(random() % 3 == 0 ? "[{\"\\/\n"[random() % 6] : random());
    ASSERT_EQ(reread(Attr::string(bytes)), Attr::string(bytes)) << i;
    ASSERT_EQ(reread(Attr::word(bytes)), Attr::word(bytes)) << i;
  }
}

TEST(Attr, FloatsAreNeverTakenForIntegers) {
  EXPECT_EQ(toString(Attr::real(1)), "1.0");
  EXPECT_EQ(toString(Attr::real(1e22)), "1e+22");
  EXPECT_EQ(toString(Attr::real(1e-5)), "1e-05");
  EXPECT_EQ(toString(Attr::integer(1)), "1");
  EXPECT_NE(Attr::real(1), Attr::integer(1));
}

TEST(Attr, EqualityIsByBits) {
  EXPECT_EQ(Attr::real(NAN), Attr::real(-NAN)); // nans have one form
  EXPECT_NE(Attr::real(0.0), Attr::real(-0.0));
  EXPECT_EQ(hashOf(Attr::real(NAN)), hashOf(Attr::real(-NAN)));
  EXPECT_NE(hashOf(Attr::ints({1, 2})), hashOf(Attr::ints({2, 1})));
  EXPECT_NE(hashOf(Attr::string("a")), hashOf(Attr::word("a")));
}

TEST(Attr, TextsNeverHoldWhatFileCheckReads) {
  Attr nested = Attr::list({Attr::list({Attr::list({Attr::integer(1)})}), Attr::string("[[[{{{")});
  EXPECT_EQ(toString(nested).find("[["), std::string::npos);
  EXPECT_EQ(toString(nested).find("{{"), std::string::npos);
  EXPECT_EQ(toString(Attr::list({Attr::ints({1, 2}), Attr::ints({3})})), "[ [1, 2], [3] ]");
}

TEST(Attr, AccessorsAssertTheKind) {
  EXPECT_THROW(Attr::word("a").asInt(), Error);
  EXPECT_THROW(Attr::integer(Dim::sym("B")).asInt(), Error);
  EXPECT_THROW(Attr().items(), Error);
}

TEST(DType, EveryScalarTypeHasOneName) {
  for (int i = 0; i < static_cast<int>(DType::NumOptions); ++i) {
    auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parseDType(dtypeName(dtype)), dtype) << dtypeName(dtype);
  }
  EXPECT_EQ(parseDType("f33"), std::nullopt);
  EXPECT_EQ(itemSize(DType::BFloat16), 2);
  EXPECT_EQ(itemSize(DType::ComplexDouble), 16);
  EXPECT_TRUE(isFloating(DType::Float8_e5m2) && isComplex(DType::ComplexHalf) && isInteger(DType::UInt64));
  EXPECT_FALSE(isInteger(DType::Bool));
}

TEST(Device, TextsReadBack) {
  for (const char *text : {"cpu", "cuda", "cuda:0", "cuda:15", "meta", "mps:0"})
    EXPECT_EQ(toString(*parseDevice(text)), text);
  for (const char *text :
       {"", "0", ":0", "cuda:", "cuda:-1", "cuda:01", "cuda:x", "Cuda", "cuda:99999999999", "cuda:0x"})
    EXPECT_EQ(parseDevice(text), std::nullopt) << text;
}

TEST(Type, ContiguousStridesGoWithoutSaying) {
  Type type = Type::tensor(DType::Float, {2, 3, 4});
  type.setStrides({12, 4, 1});
  EXPECT_FALSE(type.strides);
  type.setStrides({1, 2, 6});
  EXPECT_EQ(toString(type), "f32[2, 3, 4] strides=[1, 2, 6]");
  Dim b = Dim::sym("B");
  EXPECT_EQ(contiguousStrides({b, 0, b, 3}), (std::vector<Dim>{b * 3, b * 3, 3, 1}));
  EXPECT_EQ(Type::tensor(DType::Float, {b, 3}).numel(), b * 3);
}

TEST(Names, OddOnesAreQuoted) {
  EXPECT_EQ(valueText("fc.weight"), "%fc.weight");
  EXPECT_EQ(valueText("0"), "%0");
  EXPECT_EQ(valueText(""), "%\"\"");
  EXPECT_EQ(valueText("a b"), "%\"a b\"");
  EXPECT_EQ(opNameText("aten.add_.Tensor"), "aten.add_.Tensor");
  EXPECT_EQ(opNameText("mylib::foo.overload"), "mylib::foo.overload");
  EXPECT_EQ(opNameText("return"), "\"return\"");
  EXPECT_EQ(opNameText("a.b c"), "\"a.b c\"");
  EXPECT_EQ(opNameText("a:::b"), "\"a:::b\"");
}

} // namespace
} // namespace graphopt::ir
