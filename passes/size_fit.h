// Sizes seen in several runs, as expressions over the sizes that went in.
#pragma once
#include "ir/dim.h"

#include <map>
#include <optional>
#include <vector>

namespace graphopt::passes {

/// One value a sample.
using Samples = std::vector<int64_t>;

class SizeFit {
public:
  /// `known`: expressions of which others may be made, the likeliest first. `samples`: the syms' values in
  /// each run.
  SizeFit(const std::vector<ir::Dim> &known, const std::vector<std::vector<ir::SymValue>> &samples);

  /// A constant, a known expression, one with a constant added, a product or a sum of known ones with a
  /// constant factor: the first that has these values in every run; nothing when none has. Two runs would do
  /// to identify it, another is there to prove it wrong.
  std::optional<ir::Dim> fit(const Samples &values);

private:
  struct Known {
    ir::Dim dim;
    Samples values;
  };
  std::optional<ir::Dim> sum(const Samples &values) const;
  std::optional<ir::Dim> product(const Samples &values, size_t factors) const;
  std::vector<Known> known_;
  std::map<Samples, std::optional<ir::Dim>> found_;
};

} // namespace graphopt::passes
