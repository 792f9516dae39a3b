// Literal values of the text: what operators carry beside tensors, and what constants hold.
//
// An Attr keeps what was written, not what a schema means by it: `1`, `1.0` and `true` differ, and `f32` or
// `channels_last` is a Word. Whoever calls the operator turns it into the type that the schema asks for.
#pragma once
#include "ir/dim.h"

#include <string>
#include <variant>
#include <vector>

namespace graphopt::ir {

class Attr {
public:
  enum class Kind { None, Bool, Int, Float, Complex, String, Word, List, Opaque };

  Attr() = default; // none
  static Attr boolean(bool value);
  static Attr integer(Dim value); ///< a constant, or an expression over syms
  static Attr real(double value); ///< inf and nan included
  static Attr complex(double re, double im);
  static Attr string(std::string value);
  static Attr word(std::string value); ///< lower case: f32, cuda:0, off, channels_last
  static Attr list(std::vector<Attr> items);
  static Attr ints(const std::vector<int64_t> &values);
  /// A schema value with no text (object, generator): prints, parses, and makes `run` refuse.
  static Attr opaque(std::string typeName);

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  bool isNone() const { return kind() == Kind::None; }
  bool isInt() const { return kind() == Kind::Int; }
  bool isList() const { return kind() == Kind::List; }
  bool isWord(std::string_view w) const { return kind() == Kind::Word && text() == w; }

  // Each GO_ASSERTs the kind.
  bool asBool() const;
  const Dim &asDim() const;
  int64_t asInt() const; ///< a constant Int
  double asReal() const;
  std::pair<double, double> asComplex() const;
  const std::string &text() const; ///< String, Word, Opaque
  const std::vector<Attr> &items() const;

  /// Floats compare by bits, so nan == nan and 0.0 != -0.0: two equal Attrs are interchangeable.
  bool operator==(const Attr &) const;

private:
  struct Text {
    std::string text;
    bool operator==(const Text &) const = default;
  };
  struct WordText : Text {};
  struct OpaqueText : Text {};
  using Variant = std::variant<std::monostate, bool, Dim, double, std::pair<double, double>, Text, WordText,
                               std::vector<Attr>, OpaqueText>;
  explicit Attr(Variant value) : value_(std::move(value)) {}
  Variant value_;
};

struct NamedAttr {
  std::string name;
  Attr value;
  bool operator==(const NamedAttr &) const = default;
};

/// The text of a literal; floats in the shortest form that reads back to the same bits.
std::string toString(const Attr &attr);
size_t hashOf(const Attr &attr);

} // namespace graphopt::ir
