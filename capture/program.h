// Something that can be captured: a TorchScript module, a C++ module or callable, a plugin.
#pragma once
#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace torch::jit {
struct Module;
}
namespace graphopt::plugin {
struct Descriptor;
}

namespace graphopt::capture {

struct NamedTensor {
  std::string name; // dotted module path: "layer1.0.conv1.weight"
  at::Tensor tensor;
  bool isParameter = true; // else a buffer
};

/// A callable with named state. Calls run the host code for real.
class Program {
public:
  virtual ~Program() = default;
  virtual std::string name() const = 0;
  virtual c10::IValue call(std::vector<c10::IValue> args) = 0;
  /// Parameters and buffers as they are now. The same tensor under two names (tied weights) appears twice.
  virtual std::vector<NamedTensor> state() const { return {}; }
  /// Names of the arguments, for the names of inputs; may be shorter than the arguments.
  virtual std::vector<std::string> argumentNames() const { return {}; }
  /// The module path of the operator that is running now, empty at the top; nothing when the program does not
  /// know.
  virtual std::optional<std::string> scope() const { return std::nullopt; }
  /// Moves parameters and buffers to the device; false when the program cannot (a bare callable).
  virtual bool to(c10::Device) { return false; }
  virtual void train(bool) {}
};

using Callable = std::function<c10::IValue(std::vector<c10::IValue>)>;
using StateGetter = std::function<std::vector<NamedTensor>()>;

std::unique_ptr<Program> functionProgram(std::string name, Callable call, StateGetter state = {});
/// Runs with TorchScript's optimiser off, so that every operator reaches the dispatcher.
std::unique_ptr<Program> torchScriptProgram(const torch::jit::Module &module);
/// Loads a TorchScript archive. Throws a user error that names the file when it is missing or is none.
std::unique_ptr<Program> loadTorchScript(const std::string &path);
/// Loads a plugin .so (graphopt/plugin.h). Throws a user error when the file, the factory or its version is
/// wrong.
std::unique_ptr<Program> loadPlugin(const std::string &path);
/// The same for a program of this process; `origin` names it in errors.
std::unique_ptr<Program> pluginProgram(const plugin::Descriptor &descriptor, const std::string &origin);

} // namespace graphopt::capture
