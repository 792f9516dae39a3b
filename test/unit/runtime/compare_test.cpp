// Differences in numbers: ulps of each dtype, NaN and infinities, the rule against the f64 oracle.
#include "runtime/compare.h"

#include <ATen/ATen.h>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace graphopt::runtime {
namespace {
using at::Tensor;

TEST(Compare, ulpsOfEachDType) {
  auto ulp = [](double value, at::ScalarType dtype) {
    return ulpOf(at::scalar_tensor(value, at::kDouble), dtype).item<double>();
  };
  EXPECT_EQ(ulp(1.0, at::kFloat), std::ldexp(1, -23));
  EXPECT_EQ(ulp(-3.5, at::kFloat), std::ldexp(1, -22));
  EXPECT_EQ(ulp(1.0, at::kBFloat16), std::ldexp(1, -7));
  EXPECT_EQ(ulp(1.0, at::kHalf), std::ldexp(1, -10));
  EXPECT_EQ(ulp(0.0, at::kHalf), std::ldexp(1, -24)); // the least subnormal
  EXPECT_EQ(ulp(1e-7, at::kHalf), std::ldexp(1, -24));
  EXPECT_EQ(ulp(0.0, at::kFloat), static_cast<double>(std::numeric_limits<float>::denorm_min()));
  EXPECT_EQ(ulp(1.0, at::kDouble), std::numeric_limits<double>::epsilon());
  EXPECT_EQ(ulp(100, at::kLong), 1);
}

TEST(Compare, oneStepIsOneUlp) {
  for (float value : {1.0f, 3.7e-12f, -1e30f, 0.0f}) {
    Tensor a = at::full({1}, value), b = at::full({1}, std::nextafterf(value, INFINITY));
    Difference d = compare(a, b);
    EXPECT_FALSE(d.bitEqual);
    EXPECT_EQ(d.maxUlp, 1) << value;
    EXPECT_EQ(d.mismatches, 1);
  }
}

TEST(Compare, specialValues) {
  float nan = NAN, inf = INFINITY;
  EXPECT_TRUE(compare(at::full({2}, nan), at::full({2}, -nan)).bitEqual);
  EXPECT_TRUE(compare(at::full({2}, inf), at::full({2}, inf)).bitEqual);
  EXPECT_EQ(compare(at::full({2}, inf), at::full({2}, -inf)).maxAbsolute, inf);
  EXPECT_EQ(compare(at::full({2}, 1.f), at::full({2}, nan)).maxAbsolute, inf);
  Difference zeros = compare(at::full({1}, 0.f), at::full({1}, -0.f));
  EXPECT_FALSE(zeros.bitEqual);
  EXPECT_EQ(zeros.maxAbsolute, 0);
  EXPECT_TRUE(compare(Tensor(), Tensor()).bitEqual);
  EXPECT_TRUE(compare(at::empty({0, 3}), at::empty({0, 3})).bitEqual);
}

TEST(Compare, otherMetadataHasAReason) {
  EXPECT_EQ(compare(at::zeros({2}), at::zeros({3})).reason, "expected f32[2], actual f32[3]");
  EXPECT_EQ(compare(at::zeros({2}), at::zeros({2}, at::kHalf)).reason, "expected f32[2], actual f16[2]");
  EXPECT_FALSE(compare(at::zeros({2}), Tensor()).sameMeta);
}

TEST(Compare, layoutsFlagsAndDTypes) {
  Tensor x = at::randn({3, 4});
  EXPECT_TRUE(compare(x, x.t().contiguous().t()).bitEqual);
  Tensor c = at::randn({3}, at::kComplexFloat);
  EXPECT_TRUE(compare(c.conj().resolve_conj(), c.conj()).bitEqual);
  EXPECT_EQ(compare(at::tensor({1, 2}), at::tensor({1, 5})).maxAbsolute, 3);
  EXPECT_EQ(compare(at::eye(2, at::kBool), at::ones({2, 2}, at::kBool)).mismatches, 2);
  Tensor b = at::full({1}, 1.0, at::kBFloat16);
  EXPECT_EQ(compare(b, b + 0.0078125).maxUlp, 1);
}

TEST(Compare, oracleRule) {
  at::manual_seed(0);
  Tensor truth = at::randn({1000}, at::kDouble), eager = truth.to(at::kFloat);
  EXPECT_TRUE(compareWithOracle(truth, eager, eager).pass);
  Tensor off = eager.clone();
  off[3].add_(std::ldexp(4.0, -20));
  OracleVerdict worse = compareWithOracle(truth, eager, off);
  EXPECT_FALSE(worse.pass);
  EXPECT_NE(worse.reason.find("ulp"), std::string::npos);
  // A drift that no element shows is caught by the mean.
  Tensor drift = (truth + ulpOf(truth, at::kFloat)).to(at::kFloat);
  EXPECT_NE(compareWithOracle(truth, eager, drift).reason.find("mean"), std::string::npos);
  EXPECT_FALSE(compareWithOracle(truth, eager, at::full({1000}, NAN)).pass);
  EXPECT_FALSE(compareWithOracle(truth, eager, eager.slice(0, 0, 10)).pass);
}

} // namespace
} // namespace graphopt::runtime
