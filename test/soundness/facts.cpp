// Facts are read below autograd and compared as text and bytes, so that NaNs, signed zeros and strides count.
#include "facts.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Type.h>

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace graphopt::soundness {
namespace {

at::Tensor denseCopy(const at::Tensor &tensor) {
  const at::NoGradGuard noGrad;
  at::Tensor plain = tensor.detach();
  if (plain.is_sparse())
    plain = plain.to_dense();
  return plain.resolve_conj().resolve_neg().contiguous().cpu().clone();
}

/// How often autograd's engine added in place while it made a gradient is no fact about a program.
bool isGradient(const std::string &what) { return what.find("grad") != std::string::npos; }

std::string stateText(const std::string &what, const at::Tensor &tensor) {
  std::string text;
  if (tensor.layout() == at::kStrided)
    text += fmt::format(" strides [{}] offset {}", fmt::join(tensor.strides(), ","), tensor.storage_offset());
  if (tensor.requires_grad())
    text += " requires_grad";
  if (tensor.is_leaf())
    text += " leaf";
  if (tensor.is_inference())
    return text + " inference";
  if (tensor.is_view())
    text += " view";
  return isGradient(what) ? text : text + fmt::format(" version {}", tensor._version());
}

bool shareMemory(const at::Tensor &a, const at::Tensor &b) {
  return a.has_storage() && b.has_storage() && a.storage().nbytes() > 0 && a.is_alias_of(b);
}

bool hasBase(const at::Tensor &view, const at::Tensor &base) {
  return !view.is_inference() && view.is_view() && view._base().is_same(base);
}

std::string relation(const at::Tensor &a, const at::Tensor &b) {
  if (a.is_same(b))
    return "same as";
  if (hasBase(a, b))
    return "view of";
  if (hasBase(b, a))
    return "base of";
  return shareMemory(a, b) ? "shares memory with" : "";
}

bool sameBits(const at::Tensor &a, const at::Tensor &b) {
  if (a.defined() != b.defined())
    return false;
  return !a.defined() ||
         (a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
          (a.nbytes() == 0 || !std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes())));
}

/// How far two tensors of one shape are apart: a sign of rounding, or of something else.
std::string distance(const at::Tensor &want, const at::Tensor &got) {
  if (!want.defined() || !got.defined() || want.sizes() != got.sizes() || want.numel() == 0)
    return "";
  const at::Tensor a = want.flatten().to(at::kDouble), b = got.flatten().to(at::kDouble);
  const int64_t at = (a - b).abs().nan_to_num(1e300).argmax().item<int64_t>();
  return fmt::format(", eager {} compiled {} at element {} of {}", a[at].item<double>(), b[at].item<double>(),
                     at, want.numel());
}

std::string difference(const Fact &want, const Fact &got) {
  const std::string head = fmt::format("call {}: {}", want.call, want.what);
  if (want.call != got.call || want.what != got.what)
    return fmt::format("{}: compiled shows 'call {}: {}' here ({})", head, got.call, got.what, got.text);
  if (want.text != got.text)
    return fmt::format("{}: eager '{}', compiled '{}'", head, want.text, got.text);
  return sameBits(want.bits, got.bits) ? ""
                                       : fmt::format("{}: other bits{}", head, distance(want.bits, got.bits));
}

} // namespace

Fact factOf(int call, const std::string &what, const at::Tensor &tensor) {
  if (!tensor.defined())
    return {call, what, "undefined"};
  std::string text =
      fmt::format("{} [{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ","));
  if (tensor.layout() != at::kStrided)
    text += " " + fmt::format("layout {}", static_cast<int>(tensor.layout()));
  text += stateText(what, tensor);
  return {call, what, text, denseCopy(tensor)};
}

std::vector<Fact> relations(int call, const std::vector<Named> &all) {
  std::vector<Fact> facts;
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      if (!all[i].tensor.defined() || !all[j].tensor.defined())
        continue;
      if (const std::string how = relation(all[i].tensor, all[j].tensor); !how.empty())
        facts.push_back({call, all[i].name + " and " + all[j].name, how});
    }
  return facts;
}

std::string ambientText() {
  const auto keys = c10::impl::tls_local_dispatch_key_set();
  const auto &context = at::globalContext();
  return fmt::format(
      "grad {} inference {} autocast {} {} default {} deterministic {} {} threads {} keys +{:x} -{:x}",
      at::GradMode::is_enabled(), c10::InferenceMode::is_enabled(),
      at::autocast::is_autocast_enabled(at::kCPU), c10::toString(at::autocast::get_autocast_dtype(at::kCPU)),
      at::get_default_dtype().name(), context.deterministicAlgorithms(),
      context.deterministicFillUninitializedMemory(), at::get_num_threads(), keys.included_.raw_repr(),
      keys.excluded_.raw_repr());
}

namespace {

/// Which node saved a tensor is autograd's business: one of many in eager, one for a segment when compiled.
std::string withoutNode(std::string text) {
  const std::string head = "which is output ", what = "which some node saved";
  for (size_t at = text.find(head); at != text.npos; at = text.find(head, at)) {
    const size_t of = text.find(" of ", at);
    if (of == text.npos)
      break;
    text.replace(at, text.find_first_of(", ", of + 4) - at, what);
  }
  return text;
}

} // namespace

std::string describe(const std::exception &error) {
  const auto *torchError = dynamic_cast<const c10::Error *>(&error);
  const std::string text = withoutNode(torchError ? torchError->what_without_backtrace() : error.what());
  return c10::demangle(typeid(error).name()) + ": " + text.substr(0, text.find('\n'));
}

std::vector<std::string> differences(const std::vector<Fact> &want, const std::vector<Fact> &got,
                                     size_t limit) {
  std::vector<std::string> found;
  for (size_t i = 0; i < std::min(want.size(), got.size()) && found.size() < limit; ++i) {
    if (std::string text = difference(want[i], got[i]); !text.empty())
      found.push_back(std::move(text));
    if (want[i].what != got[i].what)
      return found; // the logs no longer run side by side
  }
  if (want.size() != got.size() && found.size() < limit)
    found.push_back(fmt::format("eager shows {} facts, compiled {}", want.size(), got.size()));
  return found;
}

} // namespace graphopt::soundness
