// Arguments as words: written down when a row is recorded, compared when a later call is matched. The boxed
// and the unboxed way to an operator give the same words, since both go by the schema's types.
#pragma once
#include "capture/segment.h"

#include <ATen/core/Formatting.h>
#include <ATen/core/IListRef.h>
#include <ATen/core/Scalar.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/OptionalArrayRef.h>

#include <bit>
#include <cmath>
#include <string_view>

namespace graphopt::capture {

/// Numbers for which an operator may take another way (dropout with p = 0 returns its input): never bound
/// late.
inline bool isSpecialNumber(double value) {
  return value == 0 || value == 1 || value == -1 || !std::isfinite(value);
}

/// One number for equal strings, for the life of the process.
Word internedString(std::string_view text);

/// Gives an argument's words, one by one, to `Sink`:
///   bool word(Word)                 a plain word
///   bool integer(Word)              an int or a bool that a row may have seen change
///   bool real(double)               a float that a row may bind late
///   bool tensor(c10::TensorImpl &)
/// Each says whether to go on.
template <class Sink> class WordReader {
public:
  explicit WordReader(Sink &sink) : sink_(sink) {}

  bool operator()(const at::Tensor &tensor) { return sink_.tensor(*tensor.unsafeGetTensorImpl()); }
  bool operator()(bool value) { return sink_.integer(value); }
  bool operator()(int64_t value) { return sink_.integer(static_cast<Word>(value)); }
  bool operator()(double value) { return sink_.real(value); }
  bool operator()(const c10::SymInt &value) {
    return !value.is_heap_allocated() && (*this)(value.as_int_unchecked());
  }
  bool operator()(c10::ScalarType value) {
    return sink_.word(static_cast<Word>(static_cast<int64_t>(value)));
  }
  bool operator()(c10::Layout value) { return sink_.word(static_cast<Word>(static_cast<int64_t>(value))); }
  bool operator()(c10::MemoryFormat value) {
    return sink_.word(static_cast<Word>(static_cast<int64_t>(value)));
  }
  bool operator()(c10::Device value) { return sink_.word(deviceWord(value)); }
  bool operator()(std::string_view value) { return sink_.word(internedString(value)); }
  bool operator()(const at::Scalar &value) {
    if (value.isFloatingPoint())
      return sink_.word(kReal) && sink_.real(value.toDouble());
    if (value.isBoolean())
      return sink_.word(kBool) && sink_.integer(value.toBool());
    if (value.isIntegral(false))
      return sink_.word(kInt) && sink_.integer(static_cast<Word>(value.toLong()));
    return sink_.word(kComplex) && complex(value.toComplexDouble());
  }
  bool operator()(const at::Generator &) { return false; } // operators with one of their own are not matched
  template <class T> bool operator()(c10::ArrayRef<T> items) { return list(items); }
  bool operator()(const at::ITensorListRef &items) { return list(items); }
  template <class T> bool operator()(const c10::List<T> &items) { return list(items); }
  template <class T> bool operator()(const std::optional<T> &value) {
    return value ? (*this)(*value) : sink_.word(kNoneWord);
  }
  bool operator()(const std::optional<at::Tensor> &value) {
    return value ? (*this)(*value) : sink_.tensor(*c10::UndefinedTensorImpl::singleton());
  }
  template <class T> bool operator()(const c10::OptionalArrayRef<T> &value) {
    return value ? (*this)(*value) : sink_.word(kNoneWord);
  }

  /// A value on the stack; `isTensor`: missing ones are undefined tensors; `isScalar`: a number with its
  /// kind.
  bool boxed(const c10::IValue &value, bool isTensor, bool isScalar) {
    if (value.isTensor())
      return sink_.tensor(*value.unsafeToTensorImpl());
    if (value.isNone())
      return isTensor ? sink_.tensor(*c10::UndefinedTensorImpl::singleton()) : sink_.word(kNoneWord);
    if (isScalar && value.isScalar())
      return (*this)(value.toScalar());
    if (value.isInt())
      return (*this)(value.toInt());
    if (value.isDouble())
      return (*this)(value.toDouble());
    if (value.isBool())
      return (*this)(value.toBool());
    if (value.isList())
      return boxedList(value, isTensor, isScalar);
    if (value.isString())
      return (*this)(std::string_view(value.toStringRef()));
    if (value.isDevice())
      return (*this)(value.toDevice());
    if (value.isComplexDouble())
      return complex(value.toComplexDouble());
    return false; // generators, objects: such calls are not matched
  }

private:
  enum Kind : Word { kInt = 1, kReal, kBool, kComplex };
  static Word deviceWord(c10::Device device) {
    return static_cast<Word>(device.type()) << 8 | static_cast<uint8_t>(device.index());
  }
  bool complex(c10::complex<double> value) {
    return sink_.word(std::bit_cast<Word>(value.real())) && sink_.word(std::bit_cast<Word>(value.imag()));
  }
  template <class List> bool list(const List &items) {
    if (!sink_.word(items.size()))
      return false;
    for (const auto &item : items)
      if (!(*this)(item))
        return false;
    return true;
  }
  bool boxedList(const c10::IValue &value, bool isTensor, bool isScalar) {
    auto items = value.toListRef();
    if (!sink_.word(items.size()))
      return false;
    for (const c10::IValue &item : items)
      if (!boxed(item, isTensor, isScalar))
        return false;
    return true;
  }

  Sink &sink_;
};

} // namespace graphopt::capture
