// What the shape rules ask of a prim's operands and attributes; each question refuses with its reason.
#pragma once
#include "ir/shape_rules.h"

#include <fmt/format.h>
#include <graphopt/error.h>

namespace graphopt::ir {

/// Says why a prim call is wrong: a user error, which inferTypes turns into its answer.
template <class... Args> [[noreturn]] void refuse(fmt::format_string<Args...> text, Args &&...args) {
  userError(fmt::format(text, std::forward<Args>(args)...));
}

/// The operands of a call, checked against the row: count, kinds, dtypes, attribute names. A list operand
/// counts as its items.
class PrimOperands {
public:
  PrimOperands(const PrimRow &row, const Op &op, const std::vector<Sym> &syms);

  size_t count() const { return operands_.size(); }
  /// The type of operand i, which must be a tensor value.
  const Type &value(size_t i) const;
  /// The type of the first value among all operands, or from operand `from` on.
  const Type &first() const { return firstFrom(0); }
  const Type &firstFrom(size_t from) const;
  /// Operand i as indices: i64.
  const Type &indexOperand(size_t i) const;

  /// Values from operand `from` on have one dtype and one size; literals fit the dtype.
  void requireAlike(size_t from) const;
  void requireSizes(size_t i, const std::vector<Dim> &sizes, std::string_view whose) const;

  std::vector<Dim> intsAttr(std::string_view name) const;
  std::vector<Dim> sizesAttr(std::string_view name) const; ///< not provably negative
  Dim intAttr(std::string_view name) const;
  int64_t stepAttr(std::string_view name) const; ///< a constant of at least 1
  bool boolAttr(std::string_view name) const;
  DType dtypeAttr(std::string_view name) const;
  size_t dimAttr(std::string_view name, size_t rank) const;               ///< below rank
  std::vector<size_t> dimsAttr(std::string_view name, size_t rank) const; ///< each once, below rank
  void requireNumberAttr(std::string_view name, DType dtype) const;       ///< a number that fits the dtype

  bool equal(const Dim &a, const Dim &b) const { return provablyEqual(a, b, syms_); }
  bool equalSizes(const std::vector<Dim> &a, const std::vector<Dim> &b) const;
  bool atMost(const Dim &a, const Dim &b) const; ///< provably a <= b
  /// How many of start, start + step ... lie below end; refuses when end may be below start.
  Dim stepsBetween(const Dim &start, const Dim &end, int64_t step) const;

  Type result(DType dtype, std::vector<Dim> sizes) const;

private:
  const Attr &attr(std::string_view name) const;
  void requireOperands(const PrimSignature &signature, const PrimRow &row) const;
  void requireAttrs(const PrimSignature &signature) const;
  void requirePlain(size_t i, const PrimRow &row) const;

  const Op &op_;
  const std::vector<Sym> &syms_;
  std::vector<Operand> operands_;
};

} // namespace graphopt::ir
