// Strides count where a dim has two elements or more.
#include "driver/last_backward.h"

#include <algorithm>
#include <numeric>

namespace graphopt::driver {
namespace {

bool sameStrides(at::IntArrayRef sizes, at::IntArrayRef a, at::IntArrayRef b) {
  for (size_t dim = 0; dim < sizes.size(); ++dim)
    if (sizes[dim] > 1 && a[dim] != b[dim])
      return false;
  return true;
}

std::vector<int64_t> denseStrides(at::IntArrayRef sizes, const std::vector<uint8_t> &order) {
  std::vector<int64_t> strides;
  for (const ir::Dim &stride : ir::denseStrides({sizes.begin(), sizes.end()}, order))
    strides.push_back(stride.value());
  return strides;
}

} // namespace

CotangentForm formOf(const at::Tensor &cotangent, at::IntArrayRef strides) {
  using Kind = CotangentForm::Kind;
  if (!cotangent.defined())
    return {Kind::Undefined};
  const at::IntArrayRef sizes = cotangent.sizes(), own = cotangent.strides();
  if (cotangent.layout() != c10::kStrided || sizes.size() != strides.size() || cotangent.numel() == 0 ||
      sameStrides(sizes, own, strides))
    return {};
  CotangentForm form{Kind::Dense, std::vector<uint8_t>(sizes.size())};
  std::iota(form.order.begin(), form.order.end(), uint8_t{0});
  std::erase_if(form.order, [&](uint8_t dim) { return sizes[dim] > 1 && own[dim] == 0; });
  std::ranges::stable_sort(form.order, std::greater<>(), [&](uint8_t dim) { return own[dim]; });
  return sameStrides(sizes, own, denseStrides(sizes, form.order)) ? form
                                                                  : CotangentForm{Kind::Gaps, {}, own.vec()};
}

std::vector<ir::Dim> stridesOf(const CotangentForm &form, const ir::Type &result) {
  using Kind = CotangentForm::Kind;
  const bool isOfRank = std::ranges::all_of(form.order, [&](uint8_t dim) { return dim < result.rank(); });
  if (form.kind == Kind::Dense && isOfRank)
    return ir::denseStrides(result.sizes, form.order);
  if (form.kind == Kind::Gaps && form.strides.size() == result.rank())
    return {form.strides.begin(), form.strides.end()};
  return result.stridesOrContiguous();
}

CotangentForm BackwardKey::of(uint32_t result) const {
  const auto known = cotangents.find(result);
  return known == cotangents.end() ? CotangentForm{} : known->second;
}

void LastBackward::await(std::vector<uint32_t> results) {
  std::lock_guard lock(mutex_);
  awaited_ = std::move(results);
}

void LastBackward::note(uint32_t result, CotangentForm form) {
  std::lock_guard lock(mutex_);
  for (uint32_t other : awaited_)
    set(other, {CotangentForm::Kind::Undefined});
  awaited_.clear();
  set(result, std::move(form));
}

void LastBackward::set(uint32_t result, CotangentForm form) {
  if (form == CotangentForm{})
    key_.cotangents.erase(result);
  else
    key_.cotangents[result] = std::move(form);
}

void LastBackward::noteGradient(const InnerGradient &which, CotangentForm form) {
  std::lock_guard lock(mutex_);
  if (form == CotangentForm{})
    key_.gradients.erase(which);
  else
    key_.gradients[which] = std::move(form);
}

void LastBackward::noteAutocast(capture::ThreadWord autocast) {
  std::lock_guard lock(mutex_);
  key_.autocast = autocast;
}

BackwardKey LastBackward::key() const {
  std::lock_guard lock(mutex_);
  return key_;
}

void LastBackward::countAgain() {
  std::lock_guard lock(mutex_);
  ++timesAgain_;
}

uint64_t LastBackward::timesAgain() const {
  std::lock_guard lock(mutex_);
  return timesAgain_;
}

} // namespace graphopt::driver
