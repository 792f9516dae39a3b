// Dims: arithmetic that keeps the canonical form, text, evaluation. Proofs over ranges are in
// dim_simplify.cpp.
#include "ir/dim.h"
#include "ir/dim_math.h"
#include "ir/quote.h"

#include <algorithm>
#include <fmt/format.h>
#include <graphopt/error.h>

namespace graphopt::ir {

namespace {
// Real sizes have a handful of terms; the bounds keep hostile text linear.
constexpr size_t kMaxTerms = 256;
constexpr size_t kMaxAtoms = 64;

[[noreturn]] void overflow() { userError("a size expression leaves 64 bits; use smaller sizes"); }
} // namespace

int64_t checkedAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum))
    overflow();
  return sum;
}

int64_t checkedMul(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    overflow();
  return product;
}

int64_t floorDivInt(int64_t a, int64_t b) {
  if (b == -1)
    return checkedMul(a, -1);
  int64_t quotient = a / b;
  bool roundedUp = a % b != 0 && (a < 0) != (b < 0);
  return roundedUp ? quotient - 1 : quotient;
}

int64_t floorModInt(int64_t a, int64_t b) {
  if (b == -1)
    return 0;
  int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// ---- order

std::strong_ordering DimAtom::operator<=>(const DimAtom &other) const {
  if (auto order = kind <=> other.kind; order != 0)
    return order;
  if (auto order = sym <=> other.sym; order != 0)
    return order;
  return std::lexicographical_compare_three_way(args.begin(), args.end(), other.args.begin(),
                                                other.args.end());
}

bool DimAtom::operator==(const DimAtom &other) const { return (*this <=> other) == 0; }

namespace {
std::strong_ordering compareAtoms(const DimTerm &a, const DimTerm &b) {
  return std::lexicographical_compare_three_way(a.atoms.begin(), a.atoms.end(), b.atoms.begin(),
                                                b.atoms.end());
}

std::strong_ordering compareTerms(const DimTerm &a, const DimTerm &b) {
  if (auto order = compareAtoms(a, b); order != 0)
    return order;
  return a.coefficient <=> b.coefficient;
}
} // namespace

std::strong_ordering Dim::operator<=>(const Dim &other) const {
  auto order = std::lexicographical_compare_three_way(terms_.begin(), terms_.end(), other.terms_.begin(),
                                                      other.terms_.end(), compareTerms);
  return order != 0 ? order : constant_ <=> other.constant_;
}

bool Dim::operator==(const Dim &other) const { return (*this <=> other) == 0; }

// ---- construction

/// The one maker of Dims with terms: sorts, adds like terms, drops zeros.
struct DimBuilder {
  static Dim make(int64_t constant, std::vector<DimTerm> terms) {
    std::sort(terms.begin(), terms.end(),
              [](const auto &a, const auto &b) { return compareAtoms(a, b) < 0; });
    Dim dim(constant);
    for (DimTerm &term : terms) {
      if (!dim.terms_.empty() && compareAtoms(dim.terms_.back(), term) == 0)
        dim.terms_.back().coefficient = checkedAdd(dim.terms_.back().coefficient, term.coefficient);
      else
        dim.terms_.push_back(std::move(term));
    }
    std::erase_if(dim.terms_, [](const DimTerm &term) { return term.coefficient == 0; });
    if (dim.terms_.size() > kMaxTerms)
      userError(fmt::format("a size expression has more than {} terms; simplify it", kMaxTerms));
    return dim;
  }

  static Dim atom(DimAtom atom) { return make(0, {DimTerm{1, {std::move(atom)}}}); }
};

namespace {
DimTerm multiply(const DimTerm &a, const DimTerm &b) {
  DimTerm product{checkedMul(a.coefficient, b.coefficient), a.atoms};
  product.atoms.insert(product.atoms.end(), b.atoms.begin(), b.atoms.end());
  std::sort(product.atoms.begin(), product.atoms.end());
  if (product.atoms.size() > kMaxAtoms)
    userError(fmt::format("a size expression multiplies more than {} factors; simplify it", kMaxAtoms));
  return product;
}

std::vector<DimTerm> allTerms(const Dim &dim) {
  std::vector<DimTerm> terms = dim.terms();
  if (dim.constantPart() != 0)
    terms.push_back({dim.constantPart(), {}});
  return terms;
}
} // namespace

Dim Dim::sym(std::string name) {
  GO_ASSERT(isSymName(name), "a sym starts with a capital letter, got '" + name + "'");
  return DimBuilder::atom({DimAtom::Kind::Sym, std::move(name), {}});
}

Dim Dim::floorDiv(const Dim &a, const Dim &b) {
  if (b == Dim(0))
    userError("a size expression divides by 0");
  if (a.isConstant() && b.isConstant())
    return floorDivInt(a.value(), b.value());
  if (b == Dim(1))
    return a;
  return DimBuilder::atom({DimAtom::Kind::FloorDiv, {}, {a, b}});
}

Dim Dim::mod(const Dim &a, const Dim &b) {
  if (b == Dim(0))
    userError("a size expression divides by 0");
  if (a.isConstant() && b.isConstant())
    return floorModInt(a.value(), b.value());
  if (b == Dim(1))
    return 0;
  return DimBuilder::atom({DimAtom::Kind::Mod, {}, {a, b}});
}

int64_t Dim::value() const {
  GO_ASSERT(isConstant(), "value() of a symbolic dim: " + toString(*this));
  return constant_;
}

Dim operator+(const Dim &a, const Dim &b) {
  int64_t constant = checkedAdd(a.constant_, b.constant_);
  if (a.terms_.empty() && b.terms_.empty())
    return constant;
  std::vector<DimTerm> terms = a.terms_;
  terms.insert(terms.end(), b.terms_.begin(), b.terms_.end());
  return DimBuilder::make(constant, std::move(terms));
}

Dim operator*(const Dim &a, const Dim &b) {
  if (a.isConstant() && b.isConstant())
    return checkedMul(a.constant_, b.constant_);
  std::vector<DimTerm> left = allTerms(a), right = allTerms(b), products;
  int64_t constant = 0;
  for (const DimTerm &x : left) {
    for (const DimTerm &y : right) {
      DimTerm product = multiply(x, y);
      if (product.atoms.empty())
        constant = product.coefficient;
      else
        products.push_back(std::move(product));
    }
  }
  return DimBuilder::make(constant, std::move(products));
}

Dim operator-(const Dim &a, const Dim &b) { return a + b * Dim(-1); }

void Dim::collectSyms(std::vector<std::string> &names) const {
  for (const DimTerm &term : terms_) {
    for (const DimAtom &atom : term.atoms) {
      bool isNew = std::find(names.begin(), names.end(), atom.sym) == names.end();
      if (atom.kind == DimAtom::Kind::Sym && isNew)
        names.push_back(atom.sym);
      for (const Dim &arg : atom.args)
        arg.collectSyms(names);
    }
  }
}

// ---- text

namespace {
std::string toString(const DimAtom &atom) {
  if (atom.kind == DimAtom::Kind::Sym)
    return atom.sym;
  std::string_view name = atom.kind == DimAtom::Kind::FloorDiv ? "floordiv" : "mod";
  return fmt::format("{}({}, {})", name, ir::toString(atom.args[0]), ir::toString(atom.args[1]));
}

std::string toString(const DimTerm &term) {
  std::string out = term.coefficient == 1 ? "" : std::to_string(term.coefficient);
  for (const DimAtom &atom : term.atoms)
    out += (out.empty() ? "" : "*") + toString(atom);
  return out;
}
} // namespace

std::string toString(const Dim &dim) {
  std::string out;
  for (const DimTerm &term : dim.terms())
    out += (out.empty() ? "" : " + ") + toString(term);
  if (dim.isConstant() || dim.constantPart() != 0)
    out += (out.empty() ? "" : " + ") + std::to_string(dim.constantPart());
  return out;
}

// ---- evaluation

namespace {
std::optional<int64_t> evaluateAtom(const DimAtom &atom, const std::vector<SymValue> &values) {
  if (atom.kind == DimAtom::Kind::Sym) {
    auto it =
        std::find_if(values.begin(), values.end(), [&](const SymValue &v) { return v.name == atom.sym; });
    return it == values.end() ? std::nullopt : std::optional(it->value);
  }
  auto a = evaluate(atom.args[0], values), b = evaluate(atom.args[1], values);
  if (!a || !b)
    return std::nullopt;
  if (*b == 0)
    userError("a size expression divides by 0: " + toString(atom));
  return atom.kind == DimAtom::Kind::FloorDiv ? floorDivInt(*a, *b) : floorModInt(*a, *b);
}
} // namespace

std::optional<int64_t> evaluate(const Dim &dim, const std::vector<SymValue> &values) {
  int64_t sum = dim.constantPart();
  for (const DimTerm &term : dim.terms()) {
    int64_t product = term.coefficient;
    for (const DimAtom &atom : term.atoms) {
      std::optional<int64_t> value = evaluateAtom(atom, values);
      if (!value)
        return std::nullopt;
      product = checkedMul(product, *value);
    }
    sum = checkedAdd(sum, product);
  }
  return sum;
}

} // namespace graphopt::ir
