// How gradients came to a segment's results when they last came: what its plans are made for, since the next
// backward is likely the same.
#pragma once
#include "capture/thread_probe.h"
#include "ir/type.h"

#include <ATen/core/Tensor.h>

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace graphopt::driver {

/// The gradient of one result.
struct CotangentForm {
  enum class Kind : uint8_t {
    AsResult,  ///< laid out as the result is
    Undefined, ///< there was none
    Dense,     ///< laid out in another order of the dims, or expanded (as sum's backward gives it)
    Gaps       ///< else: by its strides, so for these sizes alone
  };
  Kind kind = Kind::AsResult;
  std::vector<uint8_t> order =
      {}; ///< of Dense: dims from the outermost in, without those it is expanded along
  std::vector<int64_t> strides = {}; ///< of Gaps
  auto operator<=>(const CotangentForm &) const = default;
};

/// The form of a gradient, defined or not, of a result with these strides.
CotangentForm formOf(const at::Tensor &cotangent, at::IntArrayRef strides);
/// The strides of a gradient that is not Undefined, for a result of type `result`.
std::vector<ir::Dim> stridesOf(const CotangentForm &form, const ir::Type &result);

/// A gradient that autograd itself gives inside a backward plan, of an operator that was not taken apart.
struct InnerGradient {
  uint32_t part = 0;  ///< CompiledPart::number
  int64_t number = 0; ///< of the operator in the part
  size_t result = 0;  ///< of its vjp
  auto operator<=>(const InnerGradient &) const = default;
};

struct BackwardKey {
  capture::ThreadWord autocast = 0; ///< ThreadProbe::autocastOf
  /// By number of the result: those that are not AsResult.
  std::map<uint32_t, CotangentForm> cotangents = {};
  std::map<InnerGradient, CotangentForm> gradients = {}; ///< those that are not contiguous

  CotangentForm of(uint32_t result) const;
  auto operator<=>(const BackwardKey &) const = default;
};

/// Shared by all nodes of a segment; safe from many threads.
class LastBackward {
public:
  /// Gradients of these results are awaited: while none has come, nothing is known; then, those that have
  /// not come are undefined.
  void await(std::vector<uint32_t> results);
  void note(uint32_t result, CotangentForm form);
  void noteGradient(const InnerGradient &which, CotangentForm form);
  void noteAutocast(capture::ThreadWord autocast);
  BackwardKey key() const;
  /// A backward that no plan was made for took its gradients from the operators, run again.
  void countAgain();
  uint64_t timesAgain() const;

private:
  void set(uint32_t result, CotangentForm form);
  mutable std::mutex mutex_; // guards all below
  BackwardKey key_;
  std::vector<uint32_t> awaited_;
  uint64_t timesAgain_ = 0;
};

} // namespace graphopt::driver
