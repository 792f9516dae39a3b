// Support for the C++ cases: each cpp/ID.cpp has one CASE(ID) over plain LibTorch and
// graphopt::compile(model). Here compile() is the identity, so that the case states what eager does; built
// with -DGRAPHOPT the same body runs compiled.
#pragma once
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <torch/torch.h>
#include <vector>

#ifdef GRAPHOPT
#include <graphopt/graphopt.h>
inline long compilations() { return static_cast<long>(graphopt::compilations()); }
/// Whether gradients came from a compiled backward.
template <class F> bool ranCompiledBackward(const F &compiled) { return compiled.explain().compiledRuns > 0; }
#else
namespace graphopt {
template <class M> M compile(M model) { return model; }
} // namespace graphopt
inline long compilations() { return 0; }
template <class F> bool ranCompiledBackward(const F &) { return true; }
#endif

namespace cases {
using torch::Tensor;

/// Equal in dtype and sizes, and close in value, NaN equal to NaN.
inline bool close(const Tensor &a, const Tensor &b, double rtol = 1e-5, double atol = 1e-6) {
  return a.defined() && b.defined() && a.dtype() == b.dtype() && a.sizes() == b.sizes() &&
         torch::allclose(a.to(torch::kDouble), b.to(torch::kDouble), rtol, atol, /*equal_nan=*/true);
}

template <class F> bool throws(F callable) {
  try {
    callable();
  } catch (const std::exception &) {
    return true;
  }
  return false;
}

/// Evenly spaced values from lo to hi.
inline Tensor ramp(const std::vector<int64_t> &sizes, double lo = -1, double hi = 1) {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  return torch::linspace(lo, hi, count).reshape(sizes);
}
} // namespace cases

#define CASE(id) TEST(Reports, id)
// One statement, also after an if without braces.
#define CHECK_THAT(x)                                                                                        \
  do {                                                                                                       \
    EXPECT_TRUE(x);                                                                                          \
  } while (false)
