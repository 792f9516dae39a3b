// Every type that has a TreeCodec comes back as it went in.
#include <graphopt/graphopt.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

namespace graphopt {
namespace {

template <class T> void expectRoundtrip(const T &value) { EXPECT_EQ(pack(value).template as<T>(), value); }

TEST(Tree, Scalars) {
  expectRoundtrip(true);
  expectRoundtrip(3);
  expectRoundtrip(int64_t{-5});
  expectRoundtrip(2.5f);
  expectRoundtrip(2.5);
  expectRoundtrip(std::string("text"));
  EXPECT_EQ(pack("literal").as<std::string>(), "literal");
  EXPECT_EQ(pack(c10::Scalar(3)).as<int>(), 3);
  EXPECT_EQ(pack(c10::Scalar(3.5)).as<double>(), 3.5);
  EXPECT_EQ(pack(c10::Scalar(true)).as<bool>(), true);
  EXPECT_THROW(pack(c10::Scalar(c10::complex<double>(0, 1))), Error);
}

TEST(Tree, Containers) {
  expectRoundtrip(std::vector<int>{1, 2, 3});
  expectRoundtrip(std::vector<bool>{true, false});
  expectRoundtrip(std::vector<std::vector<double>>{{1.5}, {}});
  expectRoundtrip(std::array<int, 2>{4, 5});
  expectRoundtrip(std::pair<int, std::string>{1, "a"});
  expectRoundtrip(std::tuple<int, double, std::optional<bool>>{1, 2.5, std::nullopt});
  expectRoundtrip(std::map<std::string, int>{{"a", 1}, {"b", 2}});
  expectRoundtrip(std::optional<int>(3));
  expectRoundtrip(std::optional<int>());
  EXPECT_EQ(pack(c10::IntArrayRef{1, 2}).as<std::vector<int64_t>>(), (std::vector<int64_t>{1, 2}));
}

struct Opaque {
  int secret = 3;
};
static_assert(!Packable<Opaque> && !Packable<std::vector<Opaque>> && !Packable<std::pair<int, Opaque>>);
static_assert(Packable<std::vector<std::optional<int>>>);

/// Shadow mode runs the host code, so arguments may be anything; containers of it too.
TEST(Tree, ContainersOfUnknownTypesAreArgumentsAllTheSame) {
  auto fast =
      compile([](const std::vector<Opaque> &many, const at::Tensor &x) { return x * many.at(0).secret; });
  const at::Tensor x = at::ones({2});
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(at::equal(fast(std::vector<Opaque>(1), x), x * 3));
}

TEST(Tree, TensorsAreHandles) {
  const at::Tensor tensor = at::ones({2});
  EXPECT_TRUE(pack(tensor).tensor().is_same(tensor));
  const auto [first, second] = pack(std::tuple(tensor, 1)).as<std::tuple<at::Tensor, int>>();
  EXPECT_TRUE(first.is_same(tensor));
  EXPECT_EQ(second, 1);
  EXPECT_FALSE(Tree().as<at::Tensor>().defined());
}

TEST(Tree, WrongKindsSayBothSides) {
  try {
    pack(std::vector<int>{1, 2}).as<double>();
    FAIL();
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("a list of 2, expected a float"), std::string::npos)
        << error.what();
  }
}

} // namespace
} // namespace graphopt
