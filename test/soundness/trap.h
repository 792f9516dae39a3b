// A trap is one small program that a careless tracer gets wrong. It is written once and run twice from the
// same seeds, eagerly and compiled; all that can be seen from outside must be equal.
//
//   TRAP(State, HiddenCounter) {
//     auto f = run.compile([step = 0](torch::Tensor x) mutable { return ++step % 2 ? x + 1 : x * 2; });
//     run.calls([&](int) { run.see("y", f(run.randn({2, 3}))); });
//   }
//
// After each call the harness looks at what was seen and watched (bits, sizes, strides, dtype, autograd
// state, version, shared memory), at results of the call before, at errors, the random generator and the
// thread's switches. Every trap runs as four variants: seeded before each call, seeded once, without
// gradients, and in inference mode.
#pragma once
#include "device.h"
#include "facts.h"

#include <graphopt/graphopt.h>

#include <ATen/core/Generator.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>

namespace graphopt::soundness {

using torch::Tensor;

/// A way to run a compiled callable that claims to be sound.
struct Mode {
  std::string name;
  CompileOptions options;
  bool replays = true; ///< false: runs the program as it is, which only shows that the harness is fair
};
/// All modes that each trap runs in.
const std::vector<Mode> &modes();

/// What surrounds the calls of a run.
enum class Variant { Seeded, SeededOnce, NoGrad, Inference };
inline constexpr Variant kVariants[] = {Variant::Seeded, Variant::SeededOnce, Variant::NoGrad,
                                        Variant::Inference};
const char *nameOf(Variant variant);

/// A program that is called eagerly or compiled, with the same syntax.
template <class Program> class Subject {
public:
  Subject(std::shared_ptr<Program> program, const CompileOptions *options) : program_(std::move(program)) {
    if (!options)
      return;
    if constexpr (detail::Module<Program>)
      compiled_.emplace(graphopt::compile(program_, *options));
    else // the compiled callable gets this very object: state in it is the trap's
      compiled_.emplace(program_, detail::Handle(*options, {.name = "callable", .state = {}, .modules = {}}));
  }
  template <class... Args> auto operator()(Args &&...args) const {
    if (compiled_)
      return (*compiled_)(args...);
    if constexpr (detail::Module<Program>)
      return program_->forward(args...);
    else
      return (*program_)(args...);
  }
  void reset() const {
    if (compiled_)
      compiled_->reset();
  }
  Program *operator->() const { return program_.get(); }
  Explanation explain() const { return compiled_ ? compiled_->explain() : Explanation(); }

private:
  std::shared_ptr<Program> program_;
  std::optional<Compiled<Program>> compiled_;
};

class ScriptSubject {
public:
  ScriptSubject(torch::jit::Module module, const CompileOptions *options) : module_(std::move(module)) {
    if (options)
      compiled_.emplace(module_, *options);
  }
  c10::IValue operator()(std::vector<c10::IValue> args) {
    return compiled_ ? compiled_->forward(std::move(args)) : module_.forward(std::move(args));
  }
  torch::jit::Module &module() { return module_; }
  Explanation explain() const { return compiled_ ? compiled_->explain() : Explanation(); }

private:
  torch::jit::Module module_;
  std::optional<CompiledScript> compiled_;
};

/// One execution of a trap, and the log of what it showed.
class Trial {
public:
  /// No mode: eager.
  Trial(const Mode *mode, Variant variant);
  Trial(const Trial &) = delete;
  Trial &operator=(const Trial &) = delete;

  /// Does host code meet placeholders here? False for eager runs.
  bool replays() const { return mode_ && mode_->replays; }
  Variant variant() const { return variant_; }
  bool gradients() const { return variant_ == Variant::Seeded || variant_ == Variant::SeededOnce; }

  template <class M>
    requires detail::Module<M>
  Subject<M> compile(std::shared_ptr<M> module) {
    return enlist(Subject<M>(std::move(module), options()));
  }
  template <class F>
    requires(!detail::Module<F> && !std::is_convertible_v<F, const torch::jit::Module &>)
  auto compile(F callable) {
    return enlist(Subject<F>(std::make_shared<F>(std::move(callable)), options()));
  }
  ScriptSubject compile(const torch::jit::Module &module) { return enlist(ScriptSubject(module, options())); }

  /// Normal values that leave the default generator alone.
  Tensor randn(at::IntArrayRef sizes);

  /// Runs `body` with 1, 2, ... and looks around after each; what it throws becomes a fact.
  void calls(const std::function<void(int)> &body, int count = 10);

  /// Facts of this call.
  void see(const std::string &name, const Tensor &tensor);
  void see(const std::string &name, const std::vector<Tensor> &tensors);
  void see(const std::string &name, const std::optional<Tensor> &tensor);
  void see(const std::string &name, const std::string &text);
  void see(const std::string &name, const char *text) { see(name, std::string(text)); }
  template <class T>
    requires std::is_arithmetic_v<T>
  void see(const std::string &name, T value) {
    see(name, std::to_string(value));
  }
  /// Looked at after each call, with its gradient; the tensor itself, or whatever `get` answers then.
  void watch(const std::string &name, const Tensor &tensor) {
    watch(name, [tensor] { return tensor; });
  }
  void watch(const std::string &name, std::function<Tensor()> get) {
    watched_.push_back({name, std::move(get)});
  }
  /// All parameters and buffers of a module, as they are named at that time.
  template <class M> void watch(const std::shared_ptr<M> &module) {
    modules_.push_back([module] {
      std::vector<Named> state;
      for (const auto &item : module->named_parameters())
        state.push_back({item.key(), item.value()});
      for (const auto &item : module->named_buffers())
        state.push_back({item.key(), item.value()});
      return state;
    });
  }
  /// A tensor of this call that takes part in the relations and is looked at after it: an argument, mostly.
  Tensor in(const std::string &name, Tensor tensor);
  /// Backward from a weighted sum of `y`, if a gradient can be asked of it.
  void backward(const Tensor &y);

  /// Lets go of what compile() gave out so far: the harness itself keeps callables alive, for their counters.
  void forgetSubjects() {
    unmatched_ = true;
    explains_.clear();
  }

  /// The program has no branch: from the third call on nothing may be recorded and nothing may diverge.
  void expectSteady() { steady_ = true; }
  /// Errors are what the trap is about. Others say that the trap is wrong, and fail it.
  void mayThrow() { mayThrow_ = true; }
  /// Gradients by autograd's own nodes: what is compiled after this adds them in another order, which
  /// docs/soundness.md says.
  void addsInAutogradsOrder() { options_.compileBackward = false; }
  /// The program reads memory through pointers, or makes an error that another device does not survive.
  void needsHost() const {
    if (!trapDevice().is_cpu())
      throw NotHere{"it needs memory of the host"};
  }
  /// The trap itself says why its calls may run without being matched.
  void mayRunUnmatched() { unmatched_ = true; }

  const std::vector<Fact> &facts() const { return facts_; }
  /// What the engine's own counters say against the promises; empty when all hold.
  std::vector<std::string> brokenPromises() const;
  /// The first error of an eager run that its trap did not announce.
  std::string surprise() const;

private:
  struct Watched {
    std::string name;
    std::function<Tensor()> get;
  };
  struct Totals {
    uint64_t failures = 0, matched = 0, news = 0, unverified = 0;
  };

  const CompileOptions *options() const { return mode_ ? &options_ : nullptr; }
  template <class S> S enlist(S subject) {
    explains_.push_back([subject] { return subject.explain(); });
    return subject;
  }
  void lookAround();
  void lookAtWatched(std::vector<Named> &all);
  Totals totals() const;

  const Mode *mode_;
  Variant variant_;
  CompileOptions options_;
  at::Generator generator_;
  int call_ = 0;
  std::vector<Fact> facts_;
  std::vector<Named> seen_, inputs_, earlier_; // of this call; results of the call before
  std::vector<Watched> watched_;
  std::vector<std::function<std::vector<Named>()>> modules_;
  std::vector<std::function<Explanation()>> explains_;
  bool steady_ = false, unmatched_ = false, mayThrow_ = false;
  Totals afterSecond_;
};

/// A row of the table of traps.
struct Trap {
  const char *theme, *name;
  void (*body)(Trial &);
  const char *file;
  int line;
};
std::vector<Trap> &traps();
bool enlist(const Trap &trap);

/// Runs a trap eagerly and in `mode`, in every variant: what differed, one line each.
std::vector<std::string> spring(const Trap &trap, const Mode &mode);

} // namespace graphopt::soundness

#define TRAP(theme, name)                                                                                    \
  static void theme##name##Trap(::graphopt::soundness::Trial &run);                                          \
  [[maybe_unused]] static const bool theme##name##Listed =                                                   \
      ::graphopt::soundness::enlist({#theme, #name, &theme##name##Trap, __FILE__, __LINE__});                \
  static void theme##name##Trap([[maybe_unused]] ::graphopt::soundness::Trial &run)
