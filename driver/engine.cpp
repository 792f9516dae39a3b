// The library side of compile(): erased C++ programs and TorchScript modules over one CompiledCallable each.
#include "driver/compiled.h"
#include "driver/tree_value.h"

#include <graphopt/compile.h>

#include <torch/csrc/jit/api/module.h>

namespace graphopt {
namespace detail {
namespace {

/// The program of one call: its code lives on the caller's stack.
class HostProgram final : public capture::Program {
public:
  HostProgram(const Host &host, HostCode code) : host_(host), code_(code) {}
  std::string name() const override { return host_.name; }
  /// The code has its own arguments, the very objects that the caller passed.
  c10::IValue call(std::vector<c10::IValue>) override { return driver::toIValue(code_.run(code_.context)); }
  std::vector<capture::NamedTensor> state() const override {
    std::vector<capture::NamedTensor> state;
    if (host_.state)
      for (NamedState &item : host_.state())
        state.push_back({std::move(item.name), std::move(item.tensor), item.isParameter});
    return state;
  }

private:
  const Host &host_;
  const HostCode code_;
};

/// "torch::nn::LinearImpl" -> "Linear", "(anonymous namespace)::Net" -> "Net": a word for messages and graph
/// names.
std::string graphName(std::string name) {
  name = name.substr(name.find_last_of(": >)") + 1);
  if (name.size() > 4 && name.ends_with("Impl"))
    name.resize(name.size() - 4);
  return name.empty() ? "main" : name;
}

} // namespace

class Engine {
public:
  Engine(const CompileOptions &options, Host host)
      : host_(std::move(host)), callable_(options, graphName(host_.name)) {}

  Tree call(const std::vector<Tree> &args, HostCode code) {
    HostProgram program(host_, code);
    std::vector<c10::IValue> values;
    values.reserve(args.size());
    for (const Tree &arg : args)
      values.push_back(driver::toIValue(arg));
    return driver::toTree(callable_.call(program, std::move(values), host_.modules));
  }
  void shadow(HostCode code) {
    HostProgram program(host_, code);
    driver::ArgumentsGetter arguments;
    if (code.arguments)
      arguments = [code] {
        std::vector<c10::IValue> values;
        for (const Tree &tree : code.arguments(code.context))
          values.push_back(driver::toIValue(tree));
        return values;
      };
    callable_.shadow(program, [code] { code.runInPlace(code.context); }, arguments);
  }
  driver::CompiledCallable &callable() { return callable_; }

private:
  const Host host_;
  driver::CompiledCallable callable_;
};

Handle::Handle(const CompileOptions &options, Host host)
    : engine_(std::make_shared<Engine>(options, std::move(host))) {}
Tree Handle::call(std::vector<Tree> args, HostCode code) const { return engine_->call(args, code); }
bool Handle::shadows() const { return engine_->callable().shadows(); }
void Handle::shadow(HostCode code) const { engine_->shadow(code); }
Explanation Handle::explain() const { return engine_->callable().explain(); }
void Handle::reset() const { engine_->callable().reset(); }

} // namespace detail

namespace {

std::vector<detail::WatchedModule> watchedModules(const torch::jit::Module &module) {
  std::vector<detail::WatchedModule> watched;
  for (const auto &item : module.named_modules())
    if (item.value.hasattr("training"))
      watched.push_back({item.name, std::make_shared<torch::jit::Module>(item.value), [](const void *object) {
                           return static_cast<const torch::jit::Module *>(object)->is_training();
                         }});
  return watched;
}

std::string scriptName(const torch::jit::Module &module) {
  return module.type()->name() ? module.type()->name()->name() : "script";
}

} // namespace

struct CompiledScript::State {
  State(const torch::jit::Module &module, const CompileOptions &options)
      : module(module), program(capture::torchScriptProgram(module)), callable(options, scriptName(module)) {}

  c10::IValue call(std::vector<c10::IValue> args) {
    if (callable.shadows())
      return shadow(args);
    return callable.call(*program, std::move(args), [this] { return watchedModules(module); });
  }

  c10::IValue shadow(const std::vector<c10::IValue> &args) {
    c10::IValue result;
    callable.shadow(*program, [&] { result = program->call(args); }, [&] { return args; });
    return result;
  }

  const torch::jit::Module module;
  const std::unique_ptr<capture::Program> program;
  driver::CompiledCallable callable;
};

CompiledScript::CompiledScript(const torch::jit::Module &module, const CompileOptions &options)
    : state_(std::make_shared<State>(module, options)) {}

c10::IValue CompiledScript::forward(std::vector<c10::IValue> args) const {
  return state_->call(std::move(args));
}

Tree CompiledScript::call(std::vector<Tree> args) const {
  std::vector<c10::IValue> values;
  for (const Tree &arg : args)
    values.push_back(driver::toIValue(arg));
  return driver::toTree(state_->call(std::move(values)));
}

Explanation CompiledScript::explain() const { return state_->callable.explain(); }
void CompiledScript::reset() const { state_->callable.reset(); }

CompiledScript compile(const torch::jit::Module &module, const CompileOptions &options) {
  return CompiledScript(module, options);
}

uint64_t compilations() { return driver::compilations(); }

} // namespace graphopt
