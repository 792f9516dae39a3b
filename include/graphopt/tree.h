// Tree: arguments and results of a compiled callable with their C++ types erased, and TreeCodec, which packs
// and unpacks the usual types. Needs the standard library and ATen/core/Tensor.h only, so that public headers
// stay cheap.
#pragma once
#include <ATen/core/Tensor.h>

#include <graphopt/error.h>

#include <array>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace graphopt {

/// A tensor, a scalar, a string, nothing, or a list or tuple of trees.
class Tree {
public:
  struct List {
    std::vector<Tree> items;
  };
  struct Tuple {
    std::vector<Tree> items;
  };
  using Variant = std::variant<std::monostate, at::Tensor, bool, int64_t, double, std::string, List, Tuple>;

  Tree() = default; ///< none
  /// Of the kinds of the variant. They are named here: asking the variant would ask for this constructor
  /// again.
  template <class T>
    requires(std::same_as<T, at::Tensor> || std::same_as<T, bool> || std::same_as<T, int64_t> ||
             std::same_as<T, double> || std::same_as<T, std::string> || std::same_as<T, List> ||
             std::same_as<T, Tuple>)
  explicit Tree(T value) : value_(std::in_place_type<T>, std::move(value)) {}

  const Variant &variant() const { return value_; }
  bool isNone() const { return std::holds_alternative<std::monostate>(value_); }
  /// nullptr when it is something else.
  template <class T> const T *get() const { return std::get_if<T>(&value_); }

  /// The tensor; a user error when it is something else.
  const at::Tensor &tensor() const { return expect<at::Tensor>("a tensor"); }
  /// The items of a list or tuple; a user error when it is neither.
  GRAPHOPT_API const std::vector<Tree> &items() const;
  /// The value as a C++ type that has a TreeCodec: tree.as<std::tuple<at::Tensor, int64_t>>().
  template <class T> T as() const;
  /// "tensor", "int", "list of 2" ...: for messages.
  GRAPHOPT_API std::string describe() const;

  template <class T> const T &expect(const char *what) const {
    if (const T *value = get<T>())
      return *value;
    wrongKind(what);
  }
  /// Throws the user error "expected `what`, found ...".
  [[noreturn]] GRAPHOPT_API void wrongKind(const char *what) const;

private:
  Variant value_;
};

/// How a C++ type becomes a Tree and comes back. Specialise it for own argument or result types:
/// `static Tree pack(const T &)` and `static T unpack(const Tree &)`.
template <class T> struct TreeCodec;

template <class T>
concept Packable = requires(const T &value) {
  { TreeCodec<T>::pack(value) } -> std::same_as<Tree>;
};

template <class T> Tree pack(const T &value) {
  static_assert(
      Packable<T>,
      "graphopt cannot pass this type to a compiled callable: specialise graphopt::TreeCodec for it");
  return TreeCodec<T>::pack(value);
}

template <class T> T Tree::as() const { return TreeCodec<T>::unpack(*this); }

template <> struct TreeCodec<Tree> {
  static Tree pack(const Tree &tree) { return tree; }
  static Tree unpack(const Tree &tree) { return tree; }
};

template <> struct TreeCodec<at::Tensor> {
  static Tree pack(const at::Tensor &tensor) { return Tree(tensor); }
  /// None unpacks to an undefined tensor.
  static at::Tensor unpack(const Tree &tree) { return tree.isNone() ? at::Tensor() : tree.tensor(); }
};

template <> struct TreeCodec<bool> {
  static Tree pack(bool value) { return Tree(value); }
  static bool unpack(const Tree &tree) { return tree.expect<bool>("a bool"); }
};

template <std::integral T> struct TreeCodec<T> {
  static Tree pack(T value) { return Tree(static_cast<int64_t>(value)); }
  static T unpack(const Tree &tree) { return static_cast<T>(tree.expect<int64_t>("an int")); }
};

template <std::floating_point T> struct TreeCodec<T> {
  static Tree pack(T value) { return Tree(static_cast<double>(value)); }
  static T unpack(const Tree &tree) { return static_cast<T>(tree.expect<double>("a float")); }
};

template <> struct TreeCodec<std::string> {
  static Tree pack(const std::string &text) { return Tree(text); }
  static std::string unpack(const Tree &tree) { return tree.expect<std::string>("a string"); }
};
template <> struct TreeCodec<std::string_view> {
  static Tree pack(std::string_view text) { return Tree(std::string(text)); }
};
template <> struct TreeCodec<const char *> {
  static Tree pack(const char *text) { return Tree(std::string(text)); }
};
template <size_t N> struct TreeCodec<char[N]> {
  static Tree pack(const char (&text)[N]) { return Tree(std::string(text)); }
};

template <> struct TreeCodec<std::nullopt_t> {
  static Tree pack(std::nullopt_t) { return Tree(); }
};

template <> struct TreeCodec<c10::Scalar> {
  static Tree pack(const c10::Scalar &scalar) {
    if (scalar.isBoolean())
      return Tree(scalar.toBool());
    if (scalar.isIntegral(/*includeBool=*/false))
      return Tree(scalar.toLong());
    if (!scalar.isFloatingPoint())
      userError("complex scalars cannot be passed to a compiled callable: pass a 0-dim tensor");
    return Tree(scalar.toDouble());
  }
};

template <Packable T> struct TreeCodec<std::optional<T>> {
  static Tree pack(const std::optional<T> &value) { return value ? graphopt::pack(*value) : Tree(); }
  static std::optional<T> unpack(const Tree &tree) {
    return tree.isNone() ? std::nullopt : std::optional<T>(tree.as<T>());
  }
};

namespace detail {
template <class Range> Tree packList(const Range &range) {
  Tree::List list;
  for (const auto &item : range)
    list.items.push_back(graphopt::pack(item));
  return Tree(std::move(list));
}
} // namespace detail

template <Packable T> struct TreeCodec<std::vector<T>> {
  static Tree pack(const std::vector<T> &values) {
    Tree::List list;
    for (const T &value : values) // T, not auto: vector<bool> has proxies
      list.items.push_back(graphopt::pack<T>(value));
    return Tree(std::move(list));
  }
  static std::vector<T> unpack(const Tree &tree) {
    std::vector<T> values;
    for (const Tree &item : tree.items())
      values.push_back(item.as<T>());
    return values;
  }
};

template <Packable T> struct TreeCodec<c10::ArrayRef<T>> {
  static Tree pack(c10::ArrayRef<T> values) { return detail::packList(values); }
};

template <Packable T, size_t N> struct TreeCodec<std::array<T, N>> {
  static Tree pack(const std::array<T, N> &values) { return detail::packList(values); }
  static std::array<T, N> unpack(const Tree &tree) {
    if (tree.items().size() != N)
      tree.wrongKind(("a list of " + std::to_string(N)).c_str());
    std::array<T, N> values;
    for (size_t i = 0; i < N; ++i)
      values[i] = tree.items()[i].template as<T>();
    return values;
  }
};

namespace detail {
/// Tuples and pairs alike.
template <class T> struct TupleCodec {
  static constexpr size_t kSize = std::tuple_size_v<T>;
  static Tree pack(const T &values) {
    return std::apply(
        [](const auto &...items) { return Tree(Tree::Tuple{std::vector<Tree>{graphopt::pack(items)...}}); },
        values);
  }
  static T unpack(const Tree &tree) {
    if (tree.items().size() != kSize)
      tree.wrongKind(("a tuple of " + std::to_string(kSize)).c_str());
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return T(tree.items()[I].template as<std::tuple_element_t<I, T>>()...);
    }(std::make_index_sequence<kSize>());
  }
};
} // namespace detail

template <class... T>
  requires(Packable<std::remove_cv_t<T>> && ...)
struct TreeCodec<std::tuple<T...>> : detail::TupleCodec<std::tuple<T...>> {};
template <class A, class B>
  requires Packable<std::remove_cv_t<A>> && Packable<std::remove_cv_t<B>>
struct TreeCodec<std::pair<A, B>> : detail::TupleCodec<std::pair<A, B>> {};

/// A list of (key, value) tuples in the order of the keys.
template <Packable T> struct TreeCodec<std::map<std::string, T>> {
  static Tree pack(const std::map<std::string, T> &map) { return detail::packList(map); }
  static std::map<std::string, T> unpack(const Tree &tree) {
    std::map<std::string, T> map;
    for (const Tree &item : tree.items())
      map.insert(item.as<std::pair<std::string, T>>());
    return map;
  }
};

} // namespace graphopt
