// A generator's state is compared whole: a program may have drawn from it, reseeded it or set its state.
#include "capture/random_watch.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <cstring>

namespace graphopt::capture {
namespace {

bool sameState(at::Generator a, at::Generator b) {
  if (!a.device().is_cpu())
    return a.current_seed() == b.current_seed() && a.get_offset() == b.get_offset();
  auto *left = static_cast<at::CPUGeneratorImpl *>(a.unsafeGetGeneratorImpl());
  auto *right = static_cast<at::CPUGeneratorImpl *>(b.unsafeGetGeneratorImpl());
  const at::mt19937_data_pod x = left->engine().data(), y = right->engine().data();
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

bool RandomWatch::admits(c10::Device device) {
  const at::Generator &now = at::globalContext().defaultGenerator(device);
  if (!state_) {
    generator_ = now;
    state_ = copyOf(now);
    return true;
  }
  return generator_->unsafeGetGeneratorImpl() == now.unsafeGetGeneratorImpl() && sameState(*state_, now);
}

bool RandomWatch::isInStep() const { return !state_ || sameState(*state_, *generator_); }

void RandomWatch::drew() {
  if (state_)
    state_ = copyOf(*generator_);
}

RandomWatch::Rewound::Rewound(RandomWatch &watch) {
  if (!watch.state_ || sameState(*watch.state_, *watch.generator_))
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
