// Samples are primes where the caller can choose, so that a product says what its factors are.
#include "passes/size_fit.h"

#include <algorithm>

namespace graphopt::passes {
namespace {

bool areEqual(const Samples &values) {
  return std::ranges::all_of(values, [&](int64_t value) { return value == values[0]; });
}

/// a - b; nothing when it is not the same in all runs.
std::optional<int64_t> commonDifference(const Samples &a, const Samples &b) {
  for (size_t i = 1; i < a.size(); ++i)
    if (a[i] - b[i] != a[0] - b[0])
      return std::nullopt;
  return a[0] - b[0];
}

/// a / b, where it is whole.
std::optional<Samples> quotient(const Samples &a, const Samples &b) {
  Samples result;
  for (size_t i = 0; i < a.size(); ++i) {
    if (b[i] == 0 || a[i] % b[i] != 0)
      return std::nullopt;
    result.push_back(a[i] / b[i]);
  }
  return result;
}

} // namespace

SizeFit::SizeFit(const std::vector<ir::Dim> &known, const std::vector<std::vector<ir::SymValue>> &samples) {
  for (const ir::Dim &dim : known) {
    Samples values;
    for (const std::vector<ir::SymValue> &sample : samples)
      values.push_back(ir::evaluate(dim, sample).value_or(0));
    const bool isNew =
        std::ranges::none_of(known_, [&](const Known &other) { return other.values == values; });
    if (isNew && !areEqual(values))
      known_.push_back({dim, std::move(values)});
  }
}

std::optional<ir::Dim> SizeFit::fit(const Samples &values) {
  if (areEqual(values))
    return ir::Dim(values[0]);
  const auto [entry, isNew] = found_.try_emplace(values);
  if (!isNew)
    return entry->second;
  for (size_t factors = 1; factors <= 4 && !entry->second; ++factors) {
    entry->second = product(values, factors);
    if (factors == 1 && !entry->second)
      entry->second = sum(values);
  }
  return entry->second;
}

std::optional<ir::Dim> SizeFit::product(const Samples &values, size_t factors) const {
  if (areEqual(values))
    return ir::Dim(values[0]);
  if (factors == 0)
    return std::nullopt;
  for (const Known &known : known_)
    if (const std::optional<Samples> rest = quotient(values, known.values))
      if (const std::optional<ir::Dim> dim = product(*rest, factors - 1))
        return known.dim * *dim;
  return std::nullopt;
}

std::optional<ir::Dim> SizeFit::sum(const Samples &values) const {
  for (const Known &a : known_)
    if (const auto constant = commonDifference(values, a.values))
      return a.dim + ir::Dim(*constant);
  for (const Known &a : known_)
    for (const Known &b : known_) {
      Samples both;
      for (size_t i = 0; i < values.size(); ++i)
        both.push_back(a.values[i] + b.values[i]);
      if (const auto constant = commonDifference(values, both))
        return a.dim + b.dim + ir::Dim(*constant);
    }
  return std::nullopt;
}

} // namespace graphopt::passes
