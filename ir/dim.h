// Sizes and strides as expressions over syms: sums of products of integers, syms, floordiv and mod.
//
// A Dim is kept in one canonical form (terms sorted, like terms added), so structural equality is equality
// as polynomials. Arithmetic that leaves 64 bits throws a user error: no size can be that large.
#pragma once
#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graphopt::ir {

class Dim;

/// One factor of a product: a sym, or floordiv(a, b) or mod(a, b) of two dims (b > 0, rounding down).
struct DimAtom {
  enum class Kind { Sym, FloorDiv, Mod };
  Kind kind = Kind::Sym;
  std::string sym;       // Kind::Sym
  std::vector<Dim> args; // FloorDiv, Mod: exactly two
  std::strong_ordering operator<=>(const DimAtom &) const;
  bool operator==(const DimAtom &) const;
};

/// coefficient * atom * atom * ...; atoms sorted, repeated for powers.
struct DimTerm {
  int64_t coefficient = 1;
  std::vector<DimAtom> atoms;
};

/// The closed range [lo, hi] of a sym or a dim; hi == kInf means without bound, lo == kNegInf likewise.
struct DimRange {
  static constexpr int64_t kInf = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kNegInf = std::numeric_limits<int64_t>::min();
  int64_t lo = 0;
  int64_t hi = kInf;
  bool operator==(const DimRange &) const = default;
};

/// `sym B in [2, 512]`: an integer that the caller's tensors decide.
struct Sym {
  std::string name; // starts with a capital letter
  DimRange range;
  bool operator==(const Sym &) const = default;
};

class Dim {
public:
  Dim() = default;
  Dim(int64_t value) : constant_(value) {} // implicit: integers are dims
  static Dim sym(std::string name);
  static Dim floorDiv(const Dim &a, const Dim &b); ///< b constant 0 throws
  static Dim mod(const Dim &a, const Dim &b);

  bool isConstant() const { return terms_.empty(); }
  /// The value of a constant dim; GO_ASSERTs that it is one.
  int64_t value() const;
  int64_t constantPart() const { return constant_; }
  const std::vector<DimTerm> &terms() const { return terms_; } ///< the non-constant terms

  friend Dim operator+(const Dim &a, const Dim &b);
  friend Dim operator*(const Dim &a, const Dim &b);
  friend Dim operator-(const Dim &a, const Dim &b);
  std::strong_ordering operator<=>(const Dim &) const;
  bool operator==(const Dim &) const;

  /// Adds every sym name used, without duplicates, in order of first use.
  void collectSyms(std::vector<std::string> &names) const;

private:
  int64_t constant_ = 0;
  std::vector<DimTerm> terms_;
  friend struct DimBuilder;
};

/// Canonical text: "2*B*T + floordiv(H + 1, 2) + -1".
std::string toString(const Dim &dim);

/// The value under an assignment of the syms; nothing when one is missing. Division by 0 throws.
struct SymValue {
  std::string name;
  int64_t value = 0;
};
std::optional<int64_t> evaluate(const Dim &dim, const std::vector<SymValue> &values);

/// A range that holds for every assignment within the syms' ranges (interval arithmetic: sound, not tight).
DimRange rangeOf(const Dim &dim, const std::vector<Sym> &syms);

/// An equal dim, simpler where the ranges prove it: floordiv(4*B, 4) -> B, mod(B, 8) -> B for B in [0, 7] ...
Dim simplify(const Dim &dim, const std::vector<Sym> &syms);

/// True only if a and b are equal for every assignment within the ranges.
bool provablyEqual(const Dim &a, const Dim &b, const std::vector<Sym> &syms);

} // namespace graphopt::ir
