// MODEL and the flags that every command on a model shares: what to load, on which device, with which
// arguments.
#pragma once
#include "capture/capture.h"
#include "tools/input_spec.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

namespace graphopt::tools {

/// A model with arguments, ready to be called.
struct Instance {
  std::unique_ptr<capture::Program> program;
  std::vector<c10::IValue> args;

  /// Calls the program from a fixed state of the random generators.
  c10::IValue call(uint64_t seed) const;
  /// The call recorded; `dry`: without kernels. A .gir text is its own recording: nothing runs.
  capture::Capture record(uint64_t seed, bool dry = false) const;
  /// Tensors a call can change: the arguments' and the state's.
  std::vector<at::Tensor> argumentTensors() const;
  std::vector<capture::NamedTensor> state() const { return program->state(); }
};

/// Sets the seed of every generator in use.
void seedGenerators(uint64_t seed);
/// The tensors inside a value, in order.
std::vector<at::Tensor> tensorsOf(const c10::IValue &value);

class ModelFlags {
public:
  /// Declares MODEL, --input, --seed, --device, --sym, --consts, --grad, --train.
  void add(CLI::App &app);

  /// A fresh copy of the model and its arguments: equal every time, sharing nothing with the copies before.
  /// Throws a user error that names the file or flag at fault.
  Instance make() const;
  uint64_t seed() const { return seed_; }
  bool isText() const;
  const std::string &path() const { return path_; }
  bool keepsGrad() const { return grad_; }
  /// Where constants of a text are, and where those of a dump go; empty: beside the .gir.
  const std::string &constsDir() const { return consts_; }

private:
  std::unique_ptr<capture::Program> load() const;
  std::string path_, device_ = "cpu", consts_;
  std::vector<std::string> inputs_, syms_;
  uint64_t seed_ = 1;
  bool grad_ = false, train_ = false;
};

/// Grad mode as the commands run models: off unless --grad was given.
class GradScope {
public:
  explicit GradScope(const ModelFlags &flags);
  ~GradScope();
  GradScope(const GradScope &) = delete;

private:
  const bool before_;
};

} // namespace graphopt::tools
