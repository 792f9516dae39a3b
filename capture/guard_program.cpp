// Metadata is compared whole, dispatch keys included, which is stricter than the guards and cheaper. Switches
// are compared by the number of their combination (settings.h).
#include "capture/guard_program.h"

#include "capture/placeholder.h"
#include "capture/settings.h"

#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>

#include <algorithm>

namespace graphopt::capture {
namespace {

/// The thread's and the process's state, packed.
struct State {
  SettingsId settings = 0;
  uint32_t thread = 0;
  bool operator==(const State &) const = default;
};

uint32_t autocastBits(c10::DeviceType device) {
  if (!at::autocast::is_autocast_enabled(device))
    return 0;
  return 1u << 8 | static_cast<uint32_t>(at::autocast::get_autocast_dtype(device));
}

State stateNow(c10::DeviceType device) {
  static thread_local SettingsProbe settings;
  settings.refresh();
  const c10::AutogradState &autograd = c10::AutogradState::get_tls_state();
  uint32_t thread = autograd.get_grad_mode() | autograd.get_inference_mode() << 1;
  thread |= static_cast<uint32_t>(at::autocast::is_autocast_cache_enabled()) << 2;
  thread |= autocastBits(device) << 3;
  if (device != c10::kCPU)
    thread |= autocastBits(c10::kCPU) << 12;
  return {settings.now(), thread};
}

bool isPlain(const c10::IValue &value) {
  return value.isInt() || value.isBool() || value.isDouble() || value.isNone();
}

bool samePlain(const c10::IValue &a, const c10::IValue &b) {
  if (a.isInt())
    return b.isInt() && a.toInt() == b.toInt();
  if (a.isBool())
    return b.isBool() && a.toBool() == b.toBool();
  if (a.isDouble()) // by bits: a nan equals itself
    return b.isDouble() && std::bit_cast<uint64_t>(a.toDouble()) == std::bit_cast<uint64_t>(b.toDouble());
  return a.isNone() && b.isNone();
}

bool isFetched(const Bound &bound) {
  return bound.value->kind != ir::Value::Kind::HostVal && bound.value->kind != ir::Value::Kind::Const;
}

c10::DeviceType deviceOf(const ir::Graph &graph) {
  return graph.device.isCpu() ? c10::kCPU : c10::Device(graph.device.type).type();
}

} // namespace

/// A call that satisfied all guards.
struct GuardProgram::Seen {
  State state;
  std::vector<c10::IValue> plain;  // by argument; tensors are none
  std::vector<Metadata> arguments; // of tensors, in order
  std::vector<Metadata> bound;     // by Capture::bound, where it is fetched
};

GuardProgram::GuardProgram(const Capture &capture) : capture_(capture), device_(deviceOf(capture.graph)) {
  constexpr std::string_view kAboutMemory[] = {"same", "alias", "unshared", "offset"};
  for (const ir::Guard &guard : capture.graph.guards)
    isFlat_ &= std::ranges::find(kAboutMemory, guard.kind) == std::end(kAboutMemory);
}

GuardProgram::~GuardProgram() { delete seen_.load(); }

bool GuardProgram::holds(const std::vector<c10::IValue> &args) const {
  const Seen *seen = seen_.load(std::memory_order_acquire);
  if (!seen || args.size() != seen->plain.size())
    return false;
  size_t tensors = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i].isTensor()) {
      if (!isPlain(args[i]) || !samePlain(args[i], seen->plain[i]))
        return false;
      continue;
    }
    const at::Tensor &tensor = args[i].toTensor();
    if (tensors == seen->arguments.size() || !tensor.defined() || !seen->plain[i].isTensor() ||
        !matches(seen->arguments[tensors++], *tensor.unsafeGetTensorImpl()))
      return false;
  }
  for (size_t i = 0; i < capture_.bound.size(); ++i) {
    const Bound &bound = capture_.bound[i];
    if (!isFetched(bound))
      continue;
    if (bound.outside) {
      const at::Tensor tensor = bound.get();
      if (!tensor.defined() || !matches(seen->bound[i], *tensor.unsafeGetTensorImpl()))
        return false;
    } else if (!matches(seen->bound[i], *bound.tensor.unsafeGetTensorImpl())) {
      return false;
    }
  }
  return seen->state == stateNow(device_);
}

void GuardProgram::remember(const std::vector<c10::IValue> &args) const {
  if (!isFlat_ || seen_.load())
    return;
  auto seen = std::make_unique<Seen>();
  for (const c10::IValue &arg : args) {
    if (arg.isTensor() && arg.toTensor().defined()) {
      seen->arguments.push_back(metadataOf(arg.toTensor()));
      seen->plain.emplace_back(at::Tensor()); // a tensor stands here
    } else if (isPlain(arg)) {
      seen->plain.push_back(arg);
    } else {
      return;
    }
  }
  for (const Bound &bound : capture_.bound) {
    const bool isThere = isFetched(bound) && bound.get().defined();
    seen->bound.push_back(isThere ? metadataOf(bound.get()) : Metadata());
  }
  seen->state = stateNow(device_);
  const Seen *none = nullptr;
  if (seen_.compare_exchange_strong(none, seen.get(), std::memory_order_release))
    seen.release();
}

} // namespace graphopt::capture
