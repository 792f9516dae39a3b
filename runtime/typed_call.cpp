// The signatures stand in one list at the end. Whether an operator has one is decided by its schema's types,
// and checked again by the dispatcher, which knows the C++ type its kernels were registered with.
#include "runtime/typed_call.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>
#include <c10/core/SymInt.h>
#include <tuple>

namespace graphopt::runtime {
namespace {
using at::Tensor;
using c10::IValue;
using c10::TypeKind;

// ---- holders: how one C++ parameter type is recognised, kept and handed over. `is` asks the schema's real
// type.

bool isKind(const c10::Type &type, TypeKind kind) { return type.kind() == kind; }

bool isOptionalOf(const c10::Type &type, TypeKind kind) {
  return isKind(type, TypeKind::OptionalType) &&
         isKind(*type.castRaw<c10::OptionalType>()->getElementType(), kind);
}

bool isListOf(const c10::Type &type, TypeKind kind) {
  return isKind(type, TypeKind::ListType) && isKind(*type.castRaw<c10::ListType>()->getElementType(), kind);
}

template <class Parameter> struct Holder;

template <> struct Holder<const Tensor &> {
  int slot;
  Tensor constant;
  static bool is(const c10::Type &type) { return isKind(type, TypeKind::TensorType); }
  explicit Holder(const TypedArgument &argument) : slot(argument.slot) {
    if (slot == -1)
      constant = argument.constant.toTensor();
  }
  const Tensor &get(IValue *slots) const {
    return slot == -1 ? constant : std::as_const(slots[slot]).toTensor();
  }
};

template <> struct Holder<const std::optional<Tensor> &> {
  int slot;
  std::optional<Tensor> constant;
  static bool is(const c10::Type &type) { return isOptionalOf(type, TypeKind::TensorType); }
  explicit Holder(const TypedArgument &argument) : slot(argument.slot) {
    if (slot == -1)
      constant = argument.constant.toOptional<Tensor>();
  }
  std::optional<Tensor> get(IValue *slots) const { return slot == -1 ? constant : slots[slot].toTensor(); }
};

/// A parameter whose value is kept as `Kept` and passed as it is.
template <class Kept> struct Constant {
  Kept kept;
  explicit Constant(Kept value) : kept(std::move(value)) {}
  const Kept &get(IValue *) const { return kept; }
};

template <> struct Holder<const c10::Scalar &> : Constant<c10::Scalar> {
  static bool is(const c10::Type &type) { return isKind(type, TypeKind::NumberType); }
  explicit Holder(const TypedArgument &argument) : Constant(argument.constant.toScalar()) {}
};

template <> struct Holder<int64_t> : Constant<int64_t> {
  static bool is(const c10::Type &type) { return isKind(type, TypeKind::IntType); }
  explicit Holder(const TypedArgument &argument) : Constant(argument.constant.toInt()) {}
};

template <> struct Holder<double> : Constant<double> {
  static bool is(const c10::Type &type) { return isKind(type, TypeKind::FloatType); }
  explicit Holder(const TypedArgument &argument) : Constant(argument.constant.toDouble()) {}
};

template <> struct Holder<std::optional<double>> : Constant<std::optional<double>> {
  static bool is(const c10::Type &type) { return isOptionalOf(type, TypeKind::FloatType); }
  explicit Holder(const TypedArgument &argument) : Constant(argument.constant.toOptional<double>()) {}
};

template <> struct Holder<bool> : Constant<bool> {
  static bool is(const c10::Type &type) { return isKind(type, TypeKind::BoolType); }
  explicit Holder(const TypedArgument &argument) : Constant(argument.constant.toBool()) {}
};

template <> struct Holder<c10::SymInt> : Constant<c10::SymInt> {
  static bool is(const c10::Type &type) { return isKind(type, TypeKind::SymIntType); }
  explicit Holder(const TypedArgument &argument) : Constant(c10::SymInt(argument.constant.toInt())) {}
};

template <> struct Holder<std::optional<c10::SymInt>> : Constant<std::optional<c10::SymInt>> {
  static bool is(const c10::Type &type) { return isOptionalOf(type, TypeKind::SymIntType); }
  explicit Holder(const TypedArgument &argument)
      : Constant(argument.constant.isNone() ? std::nullopt
                                            : std::optional(c10::SymInt(argument.constant.toInt()))) {}
};

template <> struct Holder<c10::SymIntArrayRef> {
  std::vector<c10::SymInt> kept;
  static bool is(const c10::Type &type) { return isListOf(type, TypeKind::SymIntType); }
  explicit Holder(const TypedArgument &argument) {
    for (int64_t value : argument.constant.toIntVector())
      kept.emplace_back(value);
  }
  c10::SymIntArrayRef get(IValue *) const { return kept; }
};

template <> struct Holder<at::IntArrayRef> {
  std::vector<int64_t> kept;
  static bool is(const c10::Type &type) { return isListOf(type, TypeKind::IntType); }
  explicit Holder(const TypedArgument &argument) : kept(argument.constant.toIntVector()) {}
  at::IntArrayRef get(IValue *) const { return kept; }
};

template <> struct Holder<at::OptionalIntArrayRef> {
  std::optional<std::vector<int64_t>> kept;
  static bool is(const c10::Type &type) {
    return isKind(type, TypeKind::OptionalType) &&
           isListOf(*type.castRaw<c10::OptionalType>()->getElementType(), TypeKind::IntType);
  }
  explicit Holder(const TypedArgument &argument) {
    if (!argument.constant.isNone())
      kept = argument.constant.toIntVector();
  }
  at::OptionalIntArrayRef get(IValue *) const { return kept ? at::OptionalIntArrayRef(*kept) : std::nullopt; }
};

template <> struct Holder<at::ScalarType> : Constant<at::ScalarType> {
  static bool is(const c10::Type &type) { return isKind(type, TypeKind::ScalarTypeType); }
  explicit Holder(const TypedArgument &argument) : Constant(argument.constant.toScalarType()) {}
};

template <> struct Holder<std::optional<at::ScalarType>> : Constant<std::optional<at::ScalarType>> {
  static bool is(const c10::Type &type) { return isOptionalOf(type, TypeKind::ScalarTypeType); }
  explicit Holder(const TypedArgument &argument)
      : Constant(argument.constant.isNone() ? std::nullopt
                                            : std::optional(argument.constant.toScalarType())) {}
};

template <> struct Holder<at::MemoryFormat> : Constant<at::MemoryFormat> {
  static bool is(const c10::Type &type) { return isKind(type, TypeKind::MemoryFormatType); }
  explicit Holder(const TypedArgument &argument) : Constant(argument.constant.toMemoryFormat()) {}
};

template <> struct Holder<std::optional<at::MemoryFormat>> : Constant<std::optional<at::MemoryFormat>> {
  static bool is(const c10::Type &type) { return isOptionalOf(type, TypeKind::MemoryFormatType); }
  explicit Holder(const TypedArgument &argument)
      : Constant(argument.constant.isNone() ? std::nullopt
                                            : std::optional(argument.constant.toMemoryFormat())) {}
};

template <> struct Holder<std::string_view> : Constant<std::string> {
  static bool is(const c10::Type &type) { return isKind(type, TypeKind::StringType); }
  explicit Holder(const TypedArgument &argument) : Constant(argument.constant.toStringRef()) {}
};

// ---- signatures

template <class... Parameters> class Typed final : public TypedCall {
public:
  using Signature = Tensor(Parameters...);

  static std::unique_ptr<TypedCall> make(const Operator &op, const std::vector<TypedArgument> &arguments) {
    if (!matches(op.schema(), std::index_sequence_for<Parameters...>()))
      return nullptr;
    return make(op, arguments, std::index_sequence_for<Parameters...>());
  }

  Tensor run(IValue *slots) const override {
    return std::apply([&](const auto &...holder) { return handle_.call(holder.get(slots)...); }, holders_);
  }

  Typed(c10::TypedOperatorHandle<Signature> handle, std::tuple<Holder<Parameters>...> holders)
      : handle_(handle), holders_(std::move(holders)) {}

private:
  template <size_t... I> static bool matches(const c10::FunctionSchema &schema, std::index_sequence<I...>) {
    const auto &arguments = schema.arguments();
    return arguments.size() == sizeof...(Parameters) &&
           (Holder<Parameters>::is(*arguments[I].real_type()) && ...);
  }

  template <size_t... I>
  static std::unique_ptr<TypedCall> make(const Operator &op, const std::vector<TypedArgument> &arguments,
                                         std::index_sequence<I...>) {
    return std::make_unique<Typed>(op.handle.typed<Signature>(),
                                   std::tuple<Holder<Parameters>...>(Holder<Parameters>(arguments[I])...));
  }

  c10::TypedOperatorHandle<Signature> handle_;
  std::tuple<Holder<Parameters>...> holders_;
};

template <class... Signatures>
std::unique_ptr<TypedCall> firstOf(const Operator &op, const std::vector<TypedArgument> &arguments) {
  std::unique_ptr<TypedCall> call;
  ((call = Signatures::make(op, arguments)) || ...);
  return call;
}

using T = const Tensor &;
using OptionalT = const std::optional<Tensor> &;
using S = const c10::Scalar &;
using Sym = c10::SymInt;
using OptionalSym = std::optional<c10::SymInt>;
using Syms = c10::SymIntArrayRef;
using DType = std::optional<at::ScalarType>;
using Format = std::optional<at::MemoryFormat>;

std::unique_ptr<TypedCall> fromList(const Operator &op, const std::vector<TypedArgument> &arguments) {
  return firstOf<
      Typed<T>,                                                                         // relu, tanh, t
      Typed<T, T>,                                                                      // mul, matmul, bmm
      Typed<T, S>,                                                                      // mul.Scalar, pow
      Typed<T, T, S>,                                                                   // add, sub
      Typed<T, S, S>,                                                                   // add.Scalar
      Typed<T, T, T>,                                                                   // where
      Typed<T, T, T, S, S>,                                                             // addmm, baddbmm
      Typed<T, T, OptionalT>,                                                           // linear
      Typed<T, Syms>,                                                                   // view, reshape
      Typed<T, Syms, bool>,                                                             // expand
      Typed<T, at::IntArrayRef>,                                                        // permute
      Typed<T, int64_t>,                                                                // unsqueeze
      Typed<T, int64_t, int64_t>,                                                       // transpose, flatten
      Typed<T, int64_t, Sym>,                                                           // select
      Typed<T, int64_t, OptionalSym, OptionalSym, Sym>,                                 // slice
      Typed<T, int64_t, DType>,                                                         // softmax
      Typed<T, DType>,                                                                  // sum, mean
      Typed<T, at::OptionalIntArrayRef, bool, DType>,                                   // sum.dim, mean.dim
      Typed<T, Syms, OptionalT, OptionalT, double, bool>,                               // layer_norm
      Typed<T, OptionalT, OptionalT, OptionalT, OptionalT, bool, double, double, bool>, // batch_norm
      Typed<T, T, OptionalT, Syms, Syms, Syms, Sym>,                                    // conv2d
      Typed<T, T, T, OptionalT, double, bool, std::optional<double>, bool>,             // attention
      Typed<T, T, Sym, bool, bool>,                                                     // embedding
      Typed<T, double, bool>,                                                           // dropout
      Typed<T, std::string_view>,                                                       // gelu
      Typed<T, at::MemoryFormat>,                                                       // contiguous
      Typed<T, Format>,                                                                 // clone
      Typed<T, at::ScalarType, bool, bool, Format>                                      // to
      >(op, arguments);
}

} // namespace

std::unique_ptr<TypedCall> makeTypedCall(const Operator &op, const std::vector<TypedArgument> &arguments) {
  bool oneTensor = op.info.returns.size() == 1 && op.info.returns[0].isTensor;
  // A written argument is a `Tensor &` in C++. Kernels outside aten may be registered boxed, with no C++ type
  // to check.
  for (const ir::ArgInfo &arg : op.info.args)
    oneTensor &= !arg.written;
  if (!oneTensor || !op.info.name.starts_with("aten."))
    return nullptr;
  try {
    return fromList(op, arguments);
  } catch (const c10::Error &) {
    return nullptr; // the dispatcher knows another C++ type
  }
}

} // namespace graphopt::runtime
