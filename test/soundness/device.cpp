// A fallback on a dispatcher key above all that graphopt uses: it writes the device into calls of factories,
// so that eager and compiled runs both see factories with a device.
#include "device.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <cstdlib>

namespace graphopt::soundness {
namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// The position of the argument that says where a factory makes its tensor; -1: it is none.
int64_t deviceArgument(const c10::FunctionSchema &schema) {
  int64_t position = -1;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument &argument = schema.arguments()[i];
    if (argument.type()->isSubtypeOf(*c10::TensorType::get()) ||
        argument.type()->isSubtypeOf(*c10::ListType::ofTensors()) || argument.name() == "generator")
      return -1;
    if (argument.name() == "device")
      position = static_cast<int64_t>(i);
  }
  return position;
}

void makeThere(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  const c10::impl::ExcludeDispatchKeyGuard below(kKey);
  const size_t count = op.schema().arguments().size();
  if (const int64_t position = deviceArgument(op.schema()); position >= 0)
    if (c10::IValue &device = stack->at(stack->size() - count + position); device.isNone())
      device = trapDevice();
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  if (!trapDevice().is_cpu())
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&makeThere>());
}

} // namespace

c10::Device trapDevice() {
  static const c10::Device device = [] {
    const char *name = std::getenv("GRAPHOPT_TRAP_DEVICE");
    c10::Device named(name && *name ? name : "cpu");
    return named.is_cpu() || named.has_index() ? named : c10::Device(named.type(), 0);
  }();
  return device;
}

DeviceScope::DeviceScope() : before_(c10::impl::tls_is_dispatch_key_included(kKey)) {
  if (!trapDevice().is_cpu())
    c10::impl::tls_set_dispatch_key_included(kKey, true);
}

DeviceScope::~DeviceScope() { c10::impl::tls_set_dispatch_key_included(kKey, before_); }

} // namespace graphopt::soundness
