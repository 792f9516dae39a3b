// Literals as tensors: every dtype, layout and flag, there and back; and reproducible random inputs.
#include "runtime/content.h"

#include "graphopt/error.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace graphopt::runtime {
namespace {
using ir::Attr;
using ir::Type;

TEST(Content, everyDTypeReturns) {
  for (at::ScalarType dtype :
       {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    Attr content = Attr::list({Attr::real(0.5), Attr::real(-2)});
    at::Tensor tensor = tensorFromContent(Type::tensor(dtype, {2}), content);
    EXPECT_EQ(tensor.scalar_type(), dtype);
    EXPECT_EQ(contentOf(tensor), content) << dtype;
  }
  for (at::ScalarType dtype : {at::kLong, at::kInt, at::kShort, at::kChar}) {
    Attr content = Attr::list({Attr::integer(5), Attr::integer(-3)});
    EXPECT_EQ(contentOf(tensorFromContent(Type::tensor(dtype, {2}), content)), content) << dtype;
  }
  Attr bools = Attr::list({Attr::boolean(true), Attr::boolean(false)});
  EXPECT_EQ(contentOf(tensorFromContent(Type::tensor(at::kBool, {2}), bools)), bools);
  Attr complex = Attr::list({Attr::complex(1, -1)});
  EXPECT_EQ(contentOf(tensorFromContent(Type::tensor(at::kComplexFloat, {1}), complex)), complex);
}

TEST(Content, extremesAreExact) {
  Attr big = Attr::integer(std::numeric_limits<int64_t>::min());
  EXPECT_EQ(contentOf(tensorFromContent(Type::tensor(at::kLong, {}), big)), big);
  Attr inf = Attr::list({Attr::real(-INFINITY), Attr::real(-0.0), Attr::real(std::nextafter(1.0, 2.0))});
  EXPECT_EQ(contentOf(tensorFromContent(Type::tensor(at::kDouble, {3}), inf)), inf);
  EXPECT_TRUE(tensorFromContent(Type::tensor(at::kHalf, {}), Attr::real(NAN)).isnan().item<bool>());
}

TEST(Content, layoutAndFlagsAreTheTypes) {
  Type type = Type::tensor(at::kFloat, {2, 3});
  type.setStrides({1, 2});
  Attr content = Attr::list({Attr::list({Attr::real(1), Attr::real(2), Attr::real(3)}),
                             Attr::list({Attr::real(4), Attr::real(5), Attr::real(6)})});
  at::Tensor tensor = tensorFromContent(type, content);
  EXPECT_EQ(tensor.strides(), (at::IntArrayRef{1, 2}));
  EXPECT_EQ(tensor[1][0].item<float>(), 4);

  Type conj = Type::tensor(at::kComplexFloat, {});
  conj.conj = true;
  at::Tensor lazy = tensorFromContent(conj, Attr::complex(1, 2));
  EXPECT_TRUE(lazy.is_conj());
  EXPECT_EQ(contentOf(lazy), Attr::complex(1, 2));

  Type number = Type::tensor(at::kDouble, {});
  number.wrapped = true;
  at::Tensor wrapped = tensorFromContent(number, Attr::real(2));
  EXPECT_EQ((at::ones({1}, at::kHalf) * wrapped).scalar_type(), at::kHalf);
}

TEST(Content, repeatedElementsAreStoredOnce) {
  Type type = Type::tensor(at::kFloat, {2, 3});
  type.setStrides({0, 1});
  at::Tensor values = at::arange(3).to(at::kFloat).expand({2, 3});
  at::Tensor tensor = inLayout(values, type);
  EXPECT_EQ(tensor.strides(), (at::IntArrayRef{0, 1}));
  EXPECT_EQ(tensor.storage().nbytes(), 3 * sizeof(float));
  EXPECT_TRUE(at::equal(tensor, values));
}

TEST(Content, wrongNestingIsAUserError) {
  Type type = Type::tensor(at::kLong, {2, 2});
  EXPECT_THROW(tensorFromContent(type, Attr::ints({1, 2})), Error);
  EXPECT_THROW(tensorFromContent(type, Attr::integer(1)), Error);
  EXPECT_THROW(tensorFromContent(Type::tensor(at::kLong, {}), Attr::string("1")), Error);
}

TEST(Content, randomInputsDependOnTheSeedAlone) {
  Type plain = Type::tensor(at::kFloat, {4, 5});
  Type strided = plain;
  strided.setStrides({1, 4});
  at::Tensor a = makeInput(plain, {.seed = 7}), b = makeInput(strided, {.seed = 7}),
             c = makeInput(plain, {.seed = 8});
  EXPECT_TRUE(at::equal(a, b));
  EXPECT_FALSE(at::equal(a, c));
  EXPECT_EQ(b.strides(), (at::IntArrayRef{1, 4}));
  at::Tensor ids = makeInput(Type::tensor(at::kLong, {1000}), {.low = 3, .high = 6});
  EXPECT_EQ(ids.min().item<int64_t>(), 3);
  EXPECT_EQ(ids.max().item<int64_t>(), 5);
}

TEST(Content, symbolicSizesNeedValues) {
  Type type = Type::tensor(at::kFloat, {ir::Dim::sym("B"), 3});
  EXPECT_EQ(makeInput(type, {}, {{"B", 2}}).sizes(), (at::IntArrayRef{2, 3}));
  EXPECT_THROW(makeInput(type, {}), Error);
}

} // namespace
} // namespace graphopt::runtime
