// A generator's state is compared whole: a program may have drawn from it, reseeded it or set its state.
#include "capture/random_watch.h"

#include "capture/tensor_hooks.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <graphopt/error.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace graphopt::capture {
namespace {

/// The engine's state is private, and its getters copy all of it, twice. An explicit instantiation may name
/// private members.
using EngineMember = at::mt19937 at::CPUGeneratorImpl::*;
using StateMember = at::mt19937_data_pod at::mt19937::*;
struct EngineTag {
  friend EngineMember memberOf(EngineTag);
};
struct StateTag {
  friend StateMember memberOf(StateTag);
};
template <class Tag, auto Member> struct Expose {
  friend decltype(Member) memberOf(Tag) { return Member; }
};
template struct Expose<EngineTag, &at::CPUGeneratorImpl::engine_>;
template struct Expose<StateTag, &at::mt19937::data_>;

const at::mt19937_data_pod &stateOf(const at::CPUGeneratorImpl &generator) {
  return generator.*memberOf(EngineTag{}).*memberOf(StateTag{});
}

bool sameState(const at::Generator &a, const at::Generator &b) {
  if (!a.device().is_cpu())
    return a.current_seed() == b.current_seed() && a.get_offset() == b.get_offset();
  auto *left = static_cast<at::CPUGeneratorImpl *>(a.unsafeGetGeneratorImpl());
  auto *right = static_cast<at::CPUGeneratorImpl *>(b.unsafeGetGeneratorImpl());
  const at::mt19937_data_pod &x = stateOf(*left), &y = stateOf(*right);
  return x.seed_ == y.seed_ && x.left_ == y.left_ && x.seeded_ == y.seeded_ && x.next_ == y.next_ &&
         x.state_ == y.state_ && left->next_float_normal_sample() == right->next_float_normal_sample() &&
         left->next_double_normal_sample() == right->next_double_normal_sample();
}

at::Generator copyOf(const at::Generator &generator) {
  at::Generator source = generator; // a handle: its mutex is not const
  std::lock_guard lock(source.mutex());
  return source.clone();
}

void setState(at::Generator &target, const at::Generator &source) {
  std::lock_guard lock(target.mutex());
  if (!target.device().is_cpu()) {
    target.set_current_seed(source.current_seed());
    target.set_offset(source.get_offset());
    return;
  }
  auto *to = static_cast<at::CPUGeneratorImpl *>(target.unsafeGetGeneratorImpl());
  auto *from = static_cast<at::CPUGeneratorImpl *>(source.unsafeGetGeneratorImpl());
  to->set_engine(from->engine());
  to->set_next_float_normal_sample(from->next_float_normal_sample());
  to->set_next_double_normal_sample(from->next_double_normal_sample());
}

} // namespace

GeneratorStates::GeneratorStates(const std::vector<c10::Device> &devices) {
  auto add = [&](c10::Device device) {
    const at::Generator &generator = at::globalContext().defaultGenerator(device);
    copies_.emplace_back(generator, copyOf(generator));
  };
  add(c10::kCPU);
  for (c10::Device device : devices)
    if (device.is_cuda())
      add(device);
}

void GeneratorStates::restore() const {
  for (const auto &[generator, copy] : copies_) {
    at::Generator target = generator;
    setState(target, copy);
  }
}

bool GeneratorStates::areCurrent() const {
  return std::ranges::all_of(copies_, [](const auto &pair) { return sameState(pair.first, pair.second); });
}

void RandomWatch::onStateAsked(c10::GeneratorImpl &generator) {
  if (!generator.mutex_.try_lock())
    userError(
        "the random generator's state is asked for with its mutex held, while a compiled call still has to "
        "draw from it: ask without holding the mutex, or read a value of the call first");
  generator.mutex_.unlock();
  runPendingOperators();
}

bool RandomWatch::admits(c10::Device device) {
  const at::Generator &now = at::globalContext().defaultGenerator(device);
  if (!state_) {
    answerFor(now);
    setGeneratorListener(this);
    generator_ = now;
    state_ = copyOf(now);
    return true;
  }
  return !isTouched_ && generator_->unsafeGetGeneratorImpl() == now.unsafeGetGeneratorImpl() &&
         sameState(*state_, now);
}

void RandomWatch::forget() {
  state_.reset();
  isTouched_ = false;
  if (generatorListener() == this)
    setGeneratorListener(nullptr);
}

bool RandomWatch::isInStep() const { return !state_ || (!isTouched_ && sameState(*state_, *generator_)); }

void RandomWatch::drew() {
  if (state_)
    state_ = copyOf(*generator_);
}

RandomWatch::Rewound::Rewound(RandomWatch &watch) {
  if (watch.isInStep())
    return;
  target_ = watch.generator_;
  later_ = copyOf(*target_);
  setState(*target_, *watch.state_);
}

RandomWatch::Rewound::~Rewound() {
  if (target_)
    setState(*target_, *later_);
}

} // namespace graphopt::capture
