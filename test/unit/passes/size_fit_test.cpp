// Numbers seen at three sizes, as expressions: what is found, and what is not made up.
#include "passes/size_fit.h"

#include <gtest/gtest.h>

namespace graphopt::passes {
namespace {

using ir::Dim;

class Fit : public testing::Test {
protected:
  /// The expression's values in the three runs, given back to be found; what was found, as text.
  std::string found(const Dim &dim) {
    Samples values;
    for (const std::vector<ir::SymValue> &sample : samples_)
      values.push_back(*ir::evaluate(dim, sample));
    return found(values);
  }
  std::string found(const Samples &values) {
    const std::optional<Dim> dim = fit_.fit(values);
    return dim ? toString(*dim) : "nothing";
  }

  const Dim b_ = Dim::sym("B"), t_ = Dim::sym("T"), half_ = Dim::floorDiv(t_ + 1, 2);
  const std::vector<std::vector<ir::SymValue>> samples_ = {
      {{"B", 11}, {"T", 19}}, {{"B", 13}, {"T", 23}}, {{"B", 17}, {"T", 29}}};
  SizeFit fit_{{half_, b_, t_}, samples_};
};

TEST_F(Fit, FindsWhatOperatorsMakeOfSizes) {
  for (const Dim &dim : {Dim(7), b_, half_, b_ * t_, Dim(16) * b_ * t_, b_ * t_ * t_, b_ + t_, t_ + Dim(-1),
                         Dim(3) * b_ * half_, b_ + t_ + Dim(5)})
    EXPECT_EQ(found(dim), toString(dim));
}

TEST_F(Fit, TheThirdRunProvesALineThroughTwoWrong) {
  EXPECT_EQ(found({22, 26, 34}), "2*B");
  EXPECT_EQ(found({22, 26, 35}), "nothing");
  EXPECT_EQ(found({1, 2, 3}), "nothing");
  EXPECT_EQ(found({0, 0, 0}), "0");
}

} // namespace
} // namespace graphopt::passes
