// How tensors lie in memory as LibTorch sees it, with sizes of 0 and 1, gaps, overlaps and syms.
#include "passes/density.h"

#include <gtest/gtest.h>

namespace graphopt::passes {
namespace {

const ir::Dim B = ir::Dim::sym("B");
const std::vector<ir::Sym> kSyms = {{"B", {2, 64}}};

Density density(std::vector<ir::Dim> sizes, std::vector<ir::Dim> strides) {
  ir::Type type = ir::Type::tensor(ir::DType::Float, std::move(sizes));
  type.setStrides(std::move(strides));
  return densityOf(type, kSyms);
}

TEST(Density, DenseInSomeOrder) {
  EXPECT_EQ(density({2, 3}, {3, 1}), Density::Dense);
  EXPECT_EQ(density({2, 3}, {1, 2}), Density::Dense);
  EXPECT_EQ(density({2, 3, 4, 4}, {48, 1, 12, 3}), Density::Dense);
  EXPECT_EQ(density({}, {}), Density::Dense);
}

TEST(Density, SizesOfZeroAndOneDoNotCount) {
  EXPECT_EQ(density({2, 1, 3}, {3, 77, 1}), Density::Dense);
  EXPECT_EQ(density({2, 0, 3}, {5, 7, 9}), Density::Dense);
  EXPECT_EQ(density({1, 4}, {0, 1}), Density::Dense);
}

TEST(Density, GapsAreNoOverlap) {
  EXPECT_EQ(density({3, 2}, {4, 1}), Density::Gapped);
  EXPECT_EQ(density({4}, {2}), Density::Gapped);
  EXPECT_EQ(density({3, 3}, {4, 2}), Density::Unknown) << "0+2*2 reaches 4";
}

TEST(Density, SharedMemoryIsUnknown) {
  EXPECT_EQ(density({3, 4}, {0, 1}), Density::Unknown);
  EXPECT_EQ(density({5, 3}, {1, 1}), Density::Unknown);
}

TEST(Density, SymbolicSizesAreProvedOrUnknown) {
  EXPECT_EQ(density({B, 4}, {4, 1}), Density::Dense);
  EXPECT_EQ(density({4, B}, {1, 4}), Density::Dense);
  EXPECT_EQ(density({B, 4}, {1, B}), Density::Dense);
  EXPECT_EQ(density({B, 4}, {8, 1}), Density::Unknown) << "no proof, no answer";
}

} // namespace
} // namespace graphopt::passes
