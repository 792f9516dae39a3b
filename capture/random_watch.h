// Keeps deferred draws in step with the generator: a program that reseeds in the middle of a call must find
// that operators before the reseeding drew from the old state, and those after it from the new one.
#pragma once
#include "capture/answering_generator.h"

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <optional>
#include <utility>
#include <vector>

namespace graphopt::capture {

/// The states that the default generators of some devices are in, to be put back or compared.
class GeneratorStates {
public:
  /// The CPU's and, of `devices`, those that have one.
  explicit GeneratorStates(const std::vector<c10::Device> &devices);
  void restore() const;
  bool areCurrent() const;

private:
  std::vector<std::pair<at::Generator, at::Generator>> copies_; // the generator, a copy
};

class RandomWatch final : public GeneratorListener {
public:
  RandomWatch() = default;
  RandomWatch(const RandomWatch &) = delete;
  RandomWatch &operator=(const RandomWatch &) = delete;
  ~RandomWatch() { forget(); }
  /// Before a draw is deferred (or, while recording, made). False: the generator was touched since the draws
  /// that are pending, or is another one: those have to run first.
  bool admits(c10::Device device);
  /// Whether the generator is as the pending draws left it.
  bool isInStep() const;
  void onStateAsked(c10::GeneratorImpl &generator) override;
  void onStateGiven() override { isTouched_ = true; }
  /// While recording, after the draw was made.
  void drew();
  void forget();

  /// Around the run of pending draws: they see the state they were deferred under, and what the program made
  /// of the generator meanwhile comes after.
  class Rewound {
  public:
    explicit Rewound(RandomWatch &watch);
    ~Rewound();
    Rewound(const Rewound &) = delete;
    Rewound &operator=(const Rewound &) = delete;

  private:
    std::optional<at::Generator> target_, later_;
  };

private:
  std::optional<at::Generator> generator_; // whose state
  std::optional<at::Generator> state_;     // a copy
  bool isTouched_ = false;                 // since the copy was made
};

} // namespace graphopt::capture
