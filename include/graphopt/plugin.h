// Programs in a shared library: what `graphopt COMMAND model.so` loads.
//
//   #include <graphopt/plugin.h>
//   #include <torch/nn.h>
//   struct Net : torch::nn::Module {
//     torch::Tensor forward(torch::Tensor x);
//   };
//   GRAPHOPT_PLUGIN(Net)
//
// or, for a callable without state,
//
//   GRAPHOPT_PLUGIN_FUNCTION([](torch::Tensor x) { return x.relu(); })
//
// Build it with the LibTorch and the compiler that graphopt was built with: LibTorch's C++ types cross the
// border.
#pragma once
#include <ATen/core/ivalue.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace graphopt::plugin {

/// Raised with every change of the types below; a library of another version is refused.
inline constexpr int kVersion = 2;

struct State {
  std::string name; ///< dotted module path
  at::Tensor tensor;
  bool isParameter = true;
};

/// One model. Calls run the host code for real.
class Instance {
public:
  virtual ~Instance() = default;
  /// Throws std::invalid_argument when the arguments are too few, too many or of other types.
  virtual c10::IValue call(std::vector<c10::IValue> args) = 0;
  virtual std::vector<State> state() const { return {}; }
  virtual bool to(c10::Device) { return false; }
  virtual void train(bool) {}
};

/// What the library exports as `graphopt_plugin`. Plain data first, so that any version can be told apart.
struct Descriptor {
  int version;
  const char *name;
  Instance *(*make)();
  const char *help = "";   ///< one line
  const char *inputs = ""; ///< arguments for who gives none, as texts of --input with spaces between them
};

namespace detail {

template <class T> struct Signature : Signature<decltype(&T::operator())> {};
template <class R, class... A> struct Signature<R (*)(A...)> {
  using Result = R;
  using Arguments = std::tuple<std::decay_t<A>...>;
};
template <class C, class R, class... A> struct Signature<R (C::*)(A...)> : Signature<R (*)(A...)> {};
template <class C, class R, class... A> struct Signature<R (C::*)(A...) const> : Signature<R (*)(A...)> {};

template <class T> inline constexpr bool isOptional = false;
template <class T> inline constexpr bool isOptional<std::optional<T>> = true;

/// Calls f with the arguments taken out of `args`; the last ones may be missing if they are std::optional.
template <class S, class F, size_t... I>
c10::IValue invoke(F &&f, std::vector<c10::IValue> &args, std::index_sequence<I...>) {
  constexpr bool optional[] = {isOptional<std::tuple_element_t<I, typename S::Arguments>>..., false};
  while (args.size() < sizeof...(I) && optional[args.size()])
    args.emplace_back();
  if (args.size() != sizeof...(I))
    throw std::invalid_argument("the program takes " + std::to_string(sizeof...(I)) + " arguments, got " +
                                std::to_string(args.size()));
  return c10::IValue(f(args[I].template to<std::tuple_element_t<I, typename S::Arguments>>()...));
}
template <class S, class F> c10::IValue invoke(F &&f, std::vector<c10::IValue> &args) {
  return invoke<S>(std::forward<F>(f), args,
                   std::make_index_sequence<std::tuple_size_v<typename S::Arguments>>());
}

/// A module type, or a holder of one (TORCH_MODULE).
template <class M> struct ModuleOf {
  using Type = M;
};
template <class M>
  requires requires { typename M::ContainedType; }
struct ModuleOf<M> {
  using Type = typename M::ContainedType;
};

template <class Module> class ModuleInstance final : public Instance {
public:
  explicit ModuleInstance(std::shared_ptr<Module> module) : module_(std::move(module)) {}
  c10::IValue call(std::vector<c10::IValue> args) override {
    auto forward = [&](auto... a) { return module_->forward(std::move(a)...); };
    return invoke<Signature<decltype(&Module::forward)>>(forward, args);
  }
  std::vector<State> state() const override {
    std::vector<State> all;
    for (const auto &item : module_->named_parameters(true))
      all.push_back({item.key(), item.value(), true});
    for (const auto &item : module_->named_buffers(true))
      all.push_back({item.key(), item.value(), false});
    return all;
  }
  bool to(c10::Device device) override {
    module_->to(device);
    return true;
  }
  void train(bool on) override { module_->train(on); }

private:
  std::shared_ptr<Module> module_;
};

template <class F> class FunctionInstance final : public Instance {
public:
  explicit FunctionInstance(F f) : f_(std::move(f)) {}
  c10::IValue call(std::vector<c10::IValue> args) override { return invoke<Signature<F>>(f_, args); }

private:
  F f_;
};

template <class F> Instance *makeFunction(F f) { return new FunctionInstance<F>(std::move(f)); }

} // namespace detail

/// A new module of this type (or of what it is a holder of), as a program. The caller owns it.
template <class M, class... Args> Instance *makeModule(Args &&...args) {
  using Module = typename detail::ModuleOf<M>::Type;
  return new detail::ModuleInstance<Module>(std::make_shared<Module>(std::forward<Args>(args)...));
}

} // namespace graphopt::plugin

#define GRAPHOPT_PLUGIN_EXPORT(NAME, MAKE)                                                                   \
  extern "C" __attribute__((visibility("default"))) const ::graphopt::plugin::Descriptor *                   \
  graphopt_plugin() {                                                                                        \
    static const ::graphopt::plugin::Descriptor descriptor{::graphopt::plugin::kVersion, NAME,               \
                                                           []() -> ::graphopt::plugin::Instance * { MAKE }}; \
    return &descriptor;                                                                                      \
  }

/// The library's program is a module of this type, default-constructed.
#define GRAPHOPT_PLUGIN(MODULE)                                                                              \
  GRAPHOPT_PLUGIN_EXPORT(#MODULE, return ::graphopt::plugin::makeModule<MODULE>();)

/// The library's program is a callable: a function or a lambda.
#define GRAPHOPT_PLUGIN_FUNCTION(...)                                                                        \
  GRAPHOPT_PLUGIN_EXPORT("function", return ::graphopt::plugin::detail::makeFunction(__VA_ARGS__);)
