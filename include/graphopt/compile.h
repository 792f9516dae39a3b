// compile(): thin templates that erase C++ types and hand each call to the library.
//
//   auto fast = graphopt::compile(model);
//   at::Tensor y = fast(x);         // same arguments, same results as model->forward(x)
//   std::cout << fast.explain();
//
// The result type of a call is that of the program; argument and result types need a TreeCodec
// (graphopt/tree.h). Copies of a Compiled share their variants; calls may come from several threads.
#pragma once
#include <graphopt/explain.h>
#include <graphopt/options.h>
#include <graphopt/tree.h>

#include <functional>
#include <memory>
#include <optional>
#include <type_traits>

namespace torch::jit {
struct Module;
}

namespace graphopt {
namespace detail {

/// One call of the host code, without owning it.
struct HostCode {
  void *context = nullptr;
  Tree (*run)(void *context) = nullptr;
  void (*runInPlace)(void *context) = nullptr;             ///< leaves the result in the context
  std::vector<Tree> (*arguments)(void *context) = nullptr; ///< null: of types without a TreeCodec
};

struct NamedState {
  std::string name;
  at::Tensor tensor;
  bool isParameter = true;
};

/// A module whose training flag decides what its forward does.
struct WatchedModule {
  std::string name;
  std::shared_ptr<const void> module;
  bool (*isTraining)(const void *module) = nullptr;
};

/// What the library needs to know of a program, beside the code of each call.
struct Host {
  std::string name;
  std::function<std::vector<NamedState>()> state;      ///< empty: a bare callable
  std::function<std::vector<WatchedModule>()> modules; ///< empty: a bare callable
};

class Engine;

/// A compiled callable behind a pointer.
class GRAPHOPT_API Handle {
public:
  Handle(const CompileOptions &options, Host host);
  Tree call(std::vector<Tree> args, HostCode code) const;
  bool shadows() const;
  void shadow(HostCode code) const;
  Explanation explain() const;
  void reset() const;

private:
  std::shared_ptr<Engine> engine_;
};

template <class T>
concept ModuleHolder = requires(const T &holder) {
  typename T::ContainedType;
  holder.ptr();
};
template <class T>
concept Module = requires(T &module) {
  module.named_parameters();
  module.named_buffers();
  module.named_modules();
};

template <class M> Host hostOf(const std::shared_ptr<M> &module) {
  Host host;
  host.name = module->name();
  host.state = [module] {
    std::vector<NamedState> state;
    for (const auto &item : module->named_parameters())
      state.push_back({item.key(), item.value(), true});
    for (const auto &item : module->named_buffers())
      state.push_back({item.key(), item.value(), false});
    return state;
  };
  host.modules = [module] {
    std::vector<WatchedModule> modules;
    for (const auto &item : module->named_modules()) {
      using Base = std::remove_cvref_t<decltype(*item.value())>;
      modules.push_back({item.key(), item.value(), [](const void *watched) {
                           return static_cast<const Base *>(watched)->is_training();
                         }});
    }
    return modules;
  };
  return host;
}

} // namespace detail

/// A compiled program. `Program` is a torch::nn module or a callable.
template <class Program> class Compiled {
public:
  Compiled(std::shared_ptr<Program> program, detail::Handle handle)
      : program_(std::move(program)), handle_(std::move(handle)) {}

  /// Calls the program. Errors of the program pass through; a user error says why a call cannot be compiled.
  template <class... Args> auto operator()(Args &&...args) const {
    using Result = std::decay_t<decltype(invoke(*program_, args...))>;
    if (handle_.shadows())
      return runShadowed<Result>(args...);
    if constexpr ((Packable<std::remove_cvref_t<Args>> && ...) && isResult<Result>)
      return runErased<Result>(args...);
    else
      userError(
          "graphopt can run a callable with these argument or result types in Replay::shadow only, or with a "
          "graphopt::TreeCodec for them");
  }

  /// The program itself: compiled->parameters(), compiled->eval() ...
  Program *operator->() const { return program_.get(); }
  Program &operator*() const { return *program_; }
  /// Counters, variants, guards, borders, misses.
  Explanation explain() const { return handle_.explain(); }
  /// Forgets every variant; the next call records again.
  void reset() const { handle_.reset(); }

private:
  template <class... Args> static decltype(auto) invoke(Program &program, Args &...args) {
    if constexpr (detail::Module<Program>)
      return program.forward(args...);
    else
      return program(args...);
  }
  template <class Result> static constexpr bool isResult = std::is_void_v<Result> || Packable<Result>;
  struct Nothing {};
  template <class Result, class... Args> Result runShadowed(Args &...args) const {
    std::optional<std::conditional_t<std::is_void_v<Result>, Nothing, Result>> result;
    const auto code = [&](std::vector<Tree> *arguments) {
      if (arguments) {
        if constexpr ((Packable<std::remove_cvref_t<Args>> && ...))
          *arguments = {pack(static_cast<const std::remove_cvref_t<Args> &>(args))...};
      } else if constexpr (std::is_void_v<Result>) {
        invoke(*program_, args...);
      } else {
        result.emplace(invoke(*program_, args...));
      }
    };
    handle_.shadow({const_cast<void *>(static_cast<const void *>(&code)), nullptr,
                    [](void *context) { (*static_cast<decltype(&code)>(context))(nullptr); },
                    [](void *context) {
                      std::vector<Tree> arguments;
                      (*static_cast<decltype(&code)>(context))(&arguments);
                      return arguments;
                    }});
    if constexpr (!std::is_void_v<Result>)
      return *std::move(result);
  }
  template <class Result, class... Args> Result runErased(Args &...args) const {
    const auto code = [&] { return runHost<Result>(args...); };
    const Tree result =
        handle_.call({pack(static_cast<const std::remove_cvref_t<Args> &>(args))...},
                     {const_cast<void *>(static_cast<const void *>(&code)),
                      [](void *context) { return (*static_cast<decltype(&code)>(context))(); }});
    if constexpr (!std::is_void_v<Result>)
      return result.template as<Result>();
  }
  template <class Result, class... Args> Tree runHost(Args &...args) const {
    if constexpr (std::is_void_v<Result>) {
      invoke(*program_, args...);
      return Tree();
    } else {
      return pack<Result>(invoke(*program_, args...));
    }
  }
  std::shared_ptr<Program> program_;
  detail::Handle handle_;
};

/// Compiles a torch::nn module: `model` is a std::shared_ptr to it or its holder. Nothing happens before the
/// first call.
template <class M>
  requires detail::Module<M>
Compiled<M> compile(std::shared_ptr<M> model, const CompileOptions &options = {}) {
  return {model, detail::Handle(options, detail::hostOf(model))};
}
template <detail::ModuleHolder Holder> auto compile(const Holder &model, const CompileOptions &options = {}) {
  return compile(model.ptr(), options);
}
/// Compiles any other callable. Tensors it holds are bound by identity and read again at each call.
template <class F>
  requires(!detail::ModuleHolder<std::remove_cvref_t<F>> && !detail::Module<std::remove_cvref_t<F>> &&
           !std::is_convertible_v<F, const torch::jit::Module &>)
auto compile(F &&callable, const CompileOptions &options = {}) {
  using Callable = std::decay_t<F>;
  return Compiled<Callable>(std::make_shared<Callable>(std::forward<F>(callable)),
                            detail::Handle(options, {.name = "callable", .state = {}, .modules = {}}));
}

/// A compiled TorchScript module.
class GRAPHOPT_API CompiledScript {
public:
  CompiledScript(const torch::jit::Module &module, const CompileOptions &options);
  /// Results as a Tree: fast(x).tensor(), fast(x).as<std::tuple<at::Tensor, at::Tensor>>().
  template <class... Args> Tree operator()(const Args &...args) const { return call({pack(args)...}); }
  Tree call(std::vector<Tree> args) const;
  /// Like torch::jit::Module::forward.
  c10::IValue forward(std::vector<c10::IValue> args) const;
  Explanation explain() const;
  void reset() const;

private:
  struct State;
  std::shared_ptr<State> state_;
};
GRAPHOPT_API CompiledScript compile(const torch::jit::Module &module, const CompileOptions &options = {});

/// Variants compiled in this process so far, by all compiled callables.
GRAPHOPT_API uint64_t compilations();

} // namespace graphopt
