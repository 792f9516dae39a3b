// TorchScript modules as programs. Archives come from anywhere: whatever the loader throws becomes a user
// error that names the file.
#include "capture/program.h"

#include <filesystem>
#include <graphopt/error.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/csrc/jit/serialization/import.h>

namespace graphopt::capture {
namespace {

/// "layer1(Sequential)::forward" and the like to "layer1"; empty for the top module.
std::string_view instanceName(std::string_view entry) {
  std::string_view name = entry.substr(0, entry.find_first_of("(:"));
  return name == "TOP" || name == "SELF" || name == "INSTANCE_NAME_UNKNOWN" ? std::string_view() : name;
}

class TorchScriptProgram final : public Program {
public:
  explicit TorchScriptProgram(torch::jit::Module module) : module_(std::move(module)) {}

  std::string name() const override {
    return module_.type()->name() ? module_.type()->name()->name() : "module";
  }

  c10::IValue call(std::vector<c10::IValue> args) override {
    // The optimiser would fuse operators and specialise on shapes before they reach the dispatcher.
    torch::jit::GraphOptimizerEnabledGuard off(false);
    return module_.forward(std::move(args));
  }

  std::vector<NamedTensor> state() const override {
    std::vector<NamedTensor> all;
    for (const auto &named : module_.named_parameters(/*recurse=*/true))
      all.push_back({named.name, named.value, true});
    for (const auto &named : module_.named_buffers(/*recurse=*/true))
      all.push_back({named.name, named.value, false});
    return all;
  }

  std::vector<std::string> argumentNames() const override {
    std::vector<std::string> names;
    if (auto method = module_.find_method("forward"))
      for (const c10::Argument &argument : method->function().getSchema().arguments())
        names.push_back(argument.name());
    if (!names.empty())
      names.erase(names.begin()); // self
    return names;
  }

  std::optional<std::string> scope() const override {
    std::string path;
    for (const std::string &entry : torch::jit::currentModuleHierarchy()) {
      std::string_view name = instanceName(entry);
      if (name.empty())
        continue;
      if (!path.empty())
        path += '.';
      path += name;
    }
    return path;
  }

  bool to(c10::Device device) override {
    module_.to(device);
    return true;
  }
  void train(bool on) override { module_.train(on); }

private:
  torch::jit::Module module_;
};

/// What a loader's error says, without its backtrace.
std::string firstLine(const std::exception &error) {
  const auto *torchError = dynamic_cast<const c10::Error *>(&error);
  std::string text = torchError ? torchError->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

} // namespace

std::unique_ptr<Program> torchScriptProgram(const torch::jit::Module &module) {
  return std::make_unique<TorchScriptProgram>(module);
}

std::unique_ptr<Program> loadTorchScript(const std::string &path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    userError(fmt::format("{}: no such file", path));
  if (!std::filesystem::is_regular_file(path, ignored))
    userError(fmt::format("{}: not a file", path));
  try {
    auto program = torchScriptProgram(torch::jit::load(path, c10::kCPU));
    if (program->argumentNames().empty())
      userError(fmt::format("{}: the module has no forward() with arguments", path));
    return program;
  } catch (const Error &) {
    throw;
  } catch (const std::exception &error) {
    userError(
        fmt::format("{}: not a TorchScript archive that LibTorch can load: {}", path, firstLine(error)));
  }
}

} // namespace graphopt::capture
