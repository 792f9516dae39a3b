// Shared libraries with a program in them. A library stays loaded for the life of the process: its code and
// LibTorch's registries point into each other.
#include "capture/program.h"

#include <dlfcn.h>
#include <filesystem>
#include <graphopt/error.h>
#include <graphopt/plugin.h>

namespace graphopt::capture {
namespace {

class PluginProgram final : public Program {
public:
  PluginProgram(std::string name, std::unique_ptr<plugin::Instance> instance)
      : name_(std::move(name)), instance_(std::move(instance)) {}

  std::string name() const override { return name_; }
  c10::IValue call(std::vector<c10::IValue> args) override {
    try {
      return instance_->call(std::move(args));
    } catch (const std::invalid_argument &error) {
      userError(fmt::format("{}: {}", name_, error.what()));
    }
  }
  std::vector<NamedTensor> state() const override {
    std::vector<NamedTensor> all;
    for (plugin::State &state : instance_->state())
      all.push_back({std::move(state.name), std::move(state.tensor), state.isParameter});
    return all;
  }
  bool to(c10::Device device) override { return instance_->to(device); }
  void train(bool on) override { instance_->train(on); }

private:
  std::string name_;
  std::unique_ptr<plugin::Instance> instance_;
};

const plugin::Descriptor *describe(const std::string &path) {
  // Without a slash the loader would search its own folders.
  std::string full = std::filesystem::absolute(path).string();
  void *library = dlopen(full.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    userError(fmt::format("{}: cannot be loaded: {}", path, dlerror()));
  auto factory = reinterpret_cast<const plugin::Descriptor *(*)()>(dlsym(library, "graphopt_plugin"));
  if (!factory)
    userError(fmt::format("{}: has no graphopt_plugin: put GRAPHOPT_PLUGIN(YourModule) in its source", path));
  const plugin::Descriptor *descriptor = factory();
  if (!descriptor)
    userError(fmt::format("{}: graphopt_plugin returned nothing", path));
  if (descriptor->version != plugin::kVersion)
    userError(fmt::format(
        "{}: made for plugin version {}, this is version {}: rebuild it with this graphopt/plugin.h", path,
        descriptor->version, plugin::kVersion));
  return descriptor;
}

} // namespace

std::unique_ptr<Program> pluginProgram(const plugin::Descriptor &descriptor, const std::string &origin) {
  try {
    return std::make_unique<PluginProgram>(descriptor.name,
                                           std::unique_ptr<plugin::Instance>(descriptor.make()));
  } catch (const Error &) {
    throw;
  } catch (const std::exception &error) {
    userError(fmt::format("{}: making the program failed: {}", origin, error.what()));
  }
}

std::unique_ptr<Program> loadPlugin(const std::string &path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored))
    userError(fmt::format("{}: no such file", path));
  return pluginProgram(*describe(path), path);
}

} // namespace graphopt::capture
