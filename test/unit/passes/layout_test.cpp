// Layouts of tensors as LibTorch sees them, with sizes of 0 and 1, gaps, overlaps and syms.
#include "passes/layout.h"

#include <gtest/gtest.h>

namespace graphopt::passes {
namespace {

const ir::Dim B = ir::Dim::sym("B");
const std::vector<ir::Sym> kSyms = {{"B", {2, 64}}};

Layout layout(std::vector<ir::Dim> sizes, std::vector<ir::Dim> strides) {
  ir::Type type = ir::Type::tensor(ir::DType::Float, std::move(sizes));
  type.setStrides(std::move(strides));
  return layoutOf(type, kSyms);
}

TEST(Layout, DenseInSomeOrder) {
  EXPECT_EQ(layout({2, 3}, {3, 1}), Layout::Dense);
  EXPECT_EQ(layout({2, 3}, {1, 2}), Layout::Dense);
  EXPECT_EQ(layout({2, 3, 4, 4}, {48, 1, 12, 3}), Layout::Dense);
  EXPECT_EQ(layout({}, {}), Layout::Dense);
}

TEST(Layout, SizesOfZeroAndOneDoNotCount) {
  EXPECT_EQ(layout({2, 1, 3}, {3, 77, 1}), Layout::Dense);
  EXPECT_EQ(layout({2, 0, 3}, {5, 7, 9}), Layout::Dense);
  EXPECT_EQ(layout({1, 4}, {0, 1}), Layout::Dense);
}

TEST(Layout, GapsAreNoOverlap) {
  EXPECT_EQ(layout({3, 2}, {4, 1}), Layout::Gapped);
  EXPECT_EQ(layout({4}, {2}), Layout::Gapped);
  EXPECT_EQ(layout({3, 3}, {4, 2}), Layout::Unknown) << "0+2*2 reaches 4";
}

TEST(Layout, SharedMemoryIsUnknown) {
  EXPECT_EQ(layout({3, 4}, {0, 1}), Layout::Unknown);
  EXPECT_EQ(layout({5, 3}, {1, 1}), Layout::Unknown);
}

TEST(Layout, SymbolicSizesAreProvedOrUnknown) {
  EXPECT_EQ(layout({B, 4}, {4, 1}), Layout::Dense);
  EXPECT_EQ(layout({4, B}, {1, 4}), Layout::Dense);
  EXPECT_EQ(layout({B, 4}, {1, B}), Layout::Dense);
  EXPECT_EQ(layout({B, 4}, {8, 1}), Layout::Unknown) << "no proof, no answer";
}

} // namespace
} // namespace graphopt::passes
