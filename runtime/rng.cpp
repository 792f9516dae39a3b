// A copy of the generator is asked for its state, not the generator itself: a compiled call that has put off
// draws answers for that one, and would run them first.
#include "runtime/rng.h"

#include <ATen/Context.h>
#include <torch/library.h>

namespace graphopt::runtime {

at::Tensor rngState(c10::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device); // a handle: its mutex is not const
  std::lock_guard lock(generator.mutex());
  return generator.clone().get_state();
}

void setRngState(const at::Tensor &state, c10::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

namespace {

std::recursive_mutex &mutexOfScopes() {
  static std::recursive_mutex mutex;
  return mutex;
}

} // namespace

RngScope::RngScope(const std::vector<c10::Device> &devices, Others others) {
  if (others == Others::Wait)
    lock_ = std::unique_lock(mutexOfScopes());
  for (c10::Device device : devices)
    before_.emplace_back(device, rngState(device));
}

RngScope::~RngScope() {
  for (const auto &[device, state] : before_)
    setRngState(state, device);
}

} // namespace graphopt::runtime

TORCH_LIBRARY(graphopt, library) {
  const std::vector<at::Tag> draws = {at::Tag::nondeterministic_seeded};
  library.def("rng_state(Device device) -> Tensor", draws);
  library.def("set_rng_state(Tensor state, Device device) -> ()", draws);
  library.impl("rng_state", c10::DispatchKey::CompositeExplicitAutograd, &graphopt::runtime::rngState);
  library.impl("set_rng_state", c10::DispatchKey::CompositeExplicitAutograd, &graphopt::runtime::setRngState);
}
