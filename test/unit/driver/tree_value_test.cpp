// Trees to IValues and back: kinds, typed lists, and what a tree cannot hold.
#include "driver/tree_value.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

namespace graphopt::driver {
namespace {

TEST(TreeValue, ListsOfOneKindAreTyped) {
  EXPECT_TRUE(toIValue(pack(std::vector<int>{1, 2})).isIntList());
  EXPECT_TRUE(toIValue(pack(std::vector<double>{1.5})).isDoubleList());
  EXPECT_TRUE(toIValue(pack(std::vector<bool>{true})).isBoolList());
  EXPECT_TRUE(toIValue(pack(std::vector<at::Tensor>{at::ones({1})})).isTensorList());
  EXPECT_TRUE(toIValue(pack(std::vector<std::optional<int>>{1, std::nullopt})).isList());
}

TEST(TreeValue, NestedValuesComeBack) {
  using T = std::tuple<int, std::vector<std::pair<std::string, double>>, std::optional<bool>>;
  const T value{3, {{"a", 1.5}}, std::nullopt};
  EXPECT_EQ(toTree(toIValue(pack(value))).as<T>(), value);
}

TEST(TreeValue, DictionariesAreListsOfPairs) {
  c10::Dict<std::string, int64_t> dict;
  dict.insert("b", 2);
  dict.insert("a", 1);
  const auto tree = toTree(dict).as<std::vector<std::pair<std::string, int>>>();
  EXPECT_EQ(tree.at(0).first, "b"); // in the order of insertion
  EXPECT_EQ(tree.at(1).second, 1);
}

TEST(TreeValue, OtherValuesAreUserErrors) {
  try {
    toTree(c10::IValue(c10::Device(c10::kCPU)));
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), Error::Kind::User);
  }
}

} // namespace
} // namespace graphopt::driver
