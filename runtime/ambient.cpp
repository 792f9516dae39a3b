// The thread's state is written by hand rather than through nested LibTorch guards, since steps of a flat
// list switch between states in any order and a guard could only be left in the order it was entered.
#include "runtime/ambient.h"

#include "graphopt/error.h"
#include "ir/dtype.h"
#include "ir/settings.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <algorithm>
#include <c10/core/AutogradState.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <span>

namespace graphopt::runtime {
namespace {

bool onOff(const ir::NamedAttr &attr) {
  if (attr.value.isWord("on"))
    return true;
  if (attr.value.isWord("off"))
    return false;
  userError(fmt::format("ambient state {}={} is not understood: expected on or off", attr.name,
                        toString(attr.value)));
}

std::string autocastWord(const ir::NamedAttr &attr) {
  if (attr.value.isWord("off"))
    return "";
  if (attr.value.kind() == ir::Attr::Kind::Word && ir::parseDType(attr.value.text()))
    return attr.value.text();
  userError(
      fmt::format("ambient state amp={} is not understood: expected a dtype or off", toString(attr.value)));
}

/// InferenceMode takes the autograd keys out of reach and views need no tracking.
c10::impl::LocalDispatchKeySet keysFor(const Ambient &ambient, bool belowAutograd,
                                       const c10::impl::LocalDispatchKeySet &base) {
  auto included = base.included_, excluded = base.excluded_;
  if (ambient.inference) {
    included = included.remove(c10::DispatchKey::ADInplaceOrView);
    excluded = excluded | c10::autograd_dispatch_keyset;
  } else {
    included = included.add(c10::DispatchKey::ADInplaceOrView);
    excluded = excluded - c10::autograd_dispatch_keyset;
  }
  if (belowAutograd)
    excluded = excluded | c10::autograd_dispatch_keyset_with_ADInplaceOrView;
  c10::impl::PODLocalDispatchKeySet keys{};
  keys.set_included(included);
  keys.set_excluded(excluded);
  return keys;
}

/// Empty where no word says it.
std::string_view matmulWord(const at::Context &context) {
  auto precision = [&](at::Float32Backend backend) {
    return at::precision2str(context.float32Precision(backend, at::Float32Op::MATMUL));
  };
  return ir::matmulWord(precision(at::Float32Backend::CUDA), precision(at::Float32Backend::MKLDNN));
}

std::string_view deterministicWord(const at::Context &context) {
  return ir::deterministicWord(context.deterministicAlgorithms(), context.deterministicAlgorithmsWarnOnly());
}

void apply(const Settings &settings) {
  at::Context &context = at::globalContext();
  if (!settings.deterministic.empty() && settings.deterministic != deterministicWord(context))
    context.setDeterministicAlgorithms(settings.deterministic != "off", settings.deterministic == "warn");
  if (!settings.matmul.empty() && settings.matmul != matmulWord(context))
    context.setFloat32MatmulPrecision(settings.matmul);
}

using Words = std::span<const std::string_view>;

bool isOneOf(std::string_view word, Words words) {
  return word.empty() || std::find(words.begin(), words.end(), word) != words.end();
}

std::string settingWord(const ir::NamedAttr &setting, Words words) {
  if (setting.value.kind() != ir::Attr::Kind::Word || !isOneOf(setting.value.text(), words))
    userError(fmt::format("setting {}={} is not understood: expected one of {}", setting.name,
                          toString(setting.value), fmt::join(words, ", ")));
  return setting.value.text();
}

} // namespace

Ambient ambientOf(const ir::Graph &graph, const ir::OpState &state) {
  Ambient ambient;
  ambient.grad = true;
  bool gradSaid = false, isOpaque = false;
  for (const ir::NamedAttr &attr : state.ambient) {
    if (attr.name == "grad") {
      ambient.grad = onOff(attr);
      gradSaid = true;
    } else if (attr.name == "inference") {
      ambient.inference = onOff(attr);
    } else if (attr.name == "amp") {
      ambient.autocastDtype = autocastWord(attr);
      ambient.autocast = !ambient.autocastDtype.empty();
    } else if (attr.name == "amp_cache") {
      ambient.autocastCache = onOff(attr);
    } else if (attr.name == "opaque") {
      isOpaque = onOff(attr);
    } else {
      userError(fmt::format(
          "ambient state '{}' is not understood: expected grad, inference, amp, amp_cache or opaque",
          attr.name));
    }
  }
  if (ambient.inference && !gradSaid)
    ambient.grad = false; // as c10::InferenceMode sets it
  ambient.below = graph.stage != ir::Stage::Captured && !isOpaque;
  return ambient;
}

struct AmbientScope::Saved {
  c10::DeviceType device;
  c10::AutogradState autograd;
  c10::impl::LocalDispatchKeySet keys;
  bool autocast, autocastCache;
  c10::ScalarType autocastDtype;
  std::optional<Ambient> current;
  bool currentBelow = false;
};

AmbientScope::AmbientScope(c10::DeviceType device)
    : saved_(new Saved{device, c10::AutogradState::get_tls_state(), c10::impl::tls_local_dispatch_key_set(),
                       at::autocast::is_autocast_enabled(device), at::autocast::is_autocast_cache_enabled(),
                       at::autocast::get_autocast_dtype(device), std::nullopt}) {
  at::autocast::increment_nesting();
}

AmbientScope::~AmbientScope() {
  if (at::autocast::decrement_nesting() == 0)
    at::autocast::clear_cache();
  at::autocast::set_autocast_dtype(saved_->device, saved_->autocastDtype);
  at::autocast::set_autocast_cache_enabled(saved_->autocastCache);
  at::autocast::set_autocast_enabled(saved_->device, saved_->autocast);
  c10::AutogradState::set_tls_state(saved_->autograd);
  c10::impl::_force_tls_local_dispatch_key_set(saved_->keys);
}

void AmbientScope::enter(const Ambient &ambient, bool below) {
  const bool belowAutograd = below || ambient.below;
  if (saved_->current == ambient && saved_->currentBelow == belowAutograd)
    return;
  if (saved_->current && saved_->current->autocast && !ambient.autocast)
    at::autocast::clear_cache(); // a region ended: parameters may be written before the next begins
  saved_->current = ambient;
  saved_->currentBelow = belowAutograd;
  c10::AutogradState state = saved_->autograd;
  state.set_grad_mode(ambient.grad);
  state.set_inference_mode(ambient.inference);
  c10::AutogradState::set_tls_state(state);
  c10::impl::_force_tls_local_dispatch_key_set(keysFor(ambient, belowAutograd, saved_->keys));
  // After the keys: enabling autocast edits them.
  at::autocast::set_autocast_enabled(saved_->device, ambient.autocast);
  if (ambient.autocast) {
    at::autocast::set_autocast_dtype(saved_->device, *ir::parseDType(ambient.autocastDtype));
    at::autocast::set_autocast_cache_enabled(ambient.autocastCache);
  }
}

void AmbientScope::setBelowAutograd(bool below) {
  const bool belowAutograd = below || saved_->current->below;
  if (saved_->currentBelow == belowAutograd)
    return;
  saved_->currentBelow = belowAutograd;
  auto keys = c10::impl::tls_local_dispatch_key_set();
  auto excluded = keys.excluded_;
  if (belowAutograd)
    excluded = excluded | c10::autograd_dispatch_keyset_with_ADInplaceOrView;
  else
    excluded = excluded - c10::autograd_dispatch_keyset_with_ADInplaceOrView;
  if (saved_->current->inference) // which leaves the autograd keys out by itself
    excluded = excluded | c10::autograd_dispatch_keyset;
  c10::impl::PODLocalDispatchKeySet pod{};
  pod.set_included(keys.included_);
  pod.set_excluded(excluded);
  c10::impl::_force_tls_local_dispatch_key_set(pod);
}

SettingsScope::SettingsScope(const Settings &settings) {
  const at::Context &context = at::globalContext();
  if (!settings.deterministic.empty())
    previous_.deterministic = deterministicWord(context);
  if (!settings.matmul.empty())
    previous_.matmul = matmulWord(context);
  if (!settings.matmul.empty() && previous_.matmul.empty())
    userError(
        fmt::format("the program needs matmul={}, and the process has other precisions for CUDA and oneDNN "
                    "that could not be put back: set them alike with setFloat32MatmulPrecision",
                    settings.matmul));
  apply(settings);
}

SettingsScope::~SettingsScope() { apply(previous_); }

bool isValid(const Settings &settings) {
  return isOneOf(settings.deterministic, ir::kDeterministicWords) &&
         isOneOf(settings.matmul, ir::kMatmulWords);
}

Settings settingsOf(const ir::Graph &graph) {
  Settings settings;
  for (const ir::NamedAttr &setting : graph.settings) {
    if (setting.name == "deterministic")
      settings.deterministic = settingWord(setting, ir::kDeterministicWords);
    else if (setting.name == "matmul")
      settings.matmul = settingWord(setting, ir::kMatmulWords);
  }
  return settings;
}

} // namespace graphopt::runtime
