// What ranges of syms prove about dims: bounds by interval arithmetic, and a small set of rewrites, each with
// its equation. Sound rather than complete: a rule fires only where it holds for every assignment within the
// ranges.
#include "ir/dim.h"
#include "ir/dim_math.h"

#include <algorithm>
#include <numeric>

namespace graphopt::ir {

// ---- ranges

namespace {
using Wide = __int128;
constexpr Wide kWideInf = Wide(1) << 125; // far outside 64 bits, and two of them still add up

Wide widen(int64_t bound) {
  if (bound == DimRange::kInf)
    return kWideInf;
  return bound == DimRange::kNegInf ? -kWideInf : Wide(bound);
}

Wide clampInf(Wide value) { return std::clamp(value, -kWideInf, kWideInf); }

/// Keeps lo finite or -inf and hi finite or +inf: a bound that left 64 bits is loosened, never tightened.
DimRange narrow(Wide lo, Wide hi) {
  DimRange range{DimRange::kNegInf, DimRange::kInf};
  if (lo > Wide(DimRange::kNegInf))
    range.lo = static_cast<int64_t>(std::min(lo, Wide(DimRange::kInf - 1)));
  if (hi < Wide(DimRange::kInf))
    range.hi = static_cast<int64_t>(std::max(hi, Wide(DimRange::kNegInf + 1)));
  return range;
}

Wide multiply(Wide a, Wide b) {
  if (a == 0 || b == 0)
    return 0;
  bool negative = (a < 0) != (b < 0);
  if (a <= -kWideInf || a >= kWideInf || b <= -kWideInf || b >= kWideInf)
    return negative ? -kWideInf : kWideInf;
  return clampInf(a * b); // both are 64-bit values
}

DimRange multiply(DimRange a, DimRange b) {
  Wide corners[] = {multiply(widen(a.lo), widen(b.lo)), multiply(widen(a.lo), widen(b.hi)),
                    multiply(widen(a.hi), widen(b.lo)), multiply(widen(a.hi), widen(b.hi))};
  auto [lo, hi] = std::minmax_element(std::begin(corners), std::end(corners));
  return narrow(*lo, *hi);
}

DimRange add(DimRange a, DimRange b) {
  return narrow(clampInf(widen(a.lo) + widen(b.lo)), clampInf(widen(a.hi) + widen(b.hi)));
}

/// A bound of floordiv(a, b) for b >= 1, either of which may be infinite.
int64_t floorDivBound(int64_t a, int64_t b) {
  if (a == DimRange::kInf || a == DimRange::kNegInf)
    return a;
  if (b == DimRange::kInf)
    return a < 0 ? -1 : 0;
  return floorDivInt(a, b);
}

constexpr DimRange kAnything{DimRange::kNegInf, DimRange::kInf};

DimRange floorDivRange(DimRange a, DimRange b) {
  if (b.lo < 1)
    return kAnything;
  return {floorDivBound(a.lo, a.lo < 0 ? b.lo : b.hi), floorDivBound(a.hi, a.hi < 0 ? b.hi : b.lo)};
}

DimRange modRange(DimRange a, DimRange b) {
  if (b.lo < 1)
    return kAnything;
  if (a.lo >= 0 && a.hi < b.lo)
    return a;
  int64_t hi = b.hi == DimRange::kInf ? DimRange::kInf : b.hi - 1;
  return {0, a.lo >= 0 ? std::min(a.hi, hi) : hi};
}

DimRange rangeOfAtom(const DimAtom &atom, const std::vector<Sym> &syms) {
  if (atom.kind == DimAtom::Kind::Sym) {
    auto it = std::find_if(syms.begin(), syms.end(), [&](const Sym &s) { return s.name == atom.sym; });
    return it == syms.end() ? kAnything : it->range;
  }
  DimRange a = rangeOf(atom.args[0], syms), b = rangeOf(atom.args[1], syms);
  return atom.kind == DimAtom::Kind::FloorDiv ? floorDivRange(a, b) : modRange(a, b);
}
} // namespace

DimRange rangeOf(const Dim &dim, const std::vector<Sym> &syms) {
  DimRange sum{dim.constantPart(), dim.constantPart()};
  for (const DimTerm &term : dim.terms()) {
    DimRange product{term.coefficient, term.coefficient};
    for (const DimAtom &atom : term.atoms)
      product = multiply(product, rangeOfAtom(atom, syms));
    sum = add(sum, product);
  }
  return sum;
}

// ---- rewrites

namespace {
Dim product(const std::vector<DimAtom> &atoms) {
  Dim result(1);
  for (const DimAtom &atom : atoms) {
    if (atom.kind == DimAtom::Kind::Sym)
      result = result * Dim::sym(atom.sym);
    else if (atom.kind == DimAtom::Kind::FloorDiv)
      result = result * Dim::floorDiv(atom.args[0], atom.args[1]);
    else
      result = result * Dim::mod(atom.args[0], atom.args[1]);
  }
  return result;
}

Dim toDim(const DimTerm &term) { return Dim(term.coefficient) * product(term.atoms); }

/// a = divisor * quotient + rest, with as much in the quotient as goes.
struct Division {
  Dim quotient;
  Dim rest;
};

Division divideByConstant(const Dim &a, int64_t divisor) {
  Division out{floorDivInt(a.constantPart(), divisor), floorModInt(a.constantPart(), divisor)};
  for (const DimTerm &term : a.terms()) {
    out.quotient = out.quotient + toDim({term.coefficient / divisor, term.atoms});
    out.rest = out.rest + toDim({term.coefficient % divisor, term.atoms});
  }
  return out;
}

std::optional<Dim> divideTerm(const DimTerm &a, const DimTerm &b) {
  bool contained = std::includes(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end());
  if (!contained || b.coefficient == -1 || a.coefficient % b.coefficient != 0)
    return std::nullopt;
  DimTerm quotient{a.coefficient / b.coefficient, {}};
  std::set_difference(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(),
                      std::back_inserter(quotient.atoms));
  return toDim(quotient);
}

size_t countTerms(const Dim &dim) { return dim.terms().size() + (dim.constantPart() != 0); }

Division divideBySymbolic(const Dim &a, const Dim &divisor) {
  Division out{0, a};
  for (const DimTerm &term : a.terms()) {
    std::optional<Dim> quotient = divideTerm(term, divisor.terms().front());
    if (!quotient)
      continue;
    Dim rest = out.rest - *quotient * divisor;
    if (countTerms(rest) < countTerms(out.rest))
      out = {out.quotient + *quotient, rest};
  }
  return out;
}

int64_t gcdOfCoefficients(const Dim &dim, int64_t start) {
  int64_t gcd = start;
  for (const DimTerm &term : dim.terms())
    gcd = std::gcd(gcd, term.coefficient == DimRange::kNegInf ? 1 : term.coefficient);
  return gcd;
}

/// Every term but the constant divided by `gcd`, which divides each.
Dim termsDivided(const Dim &dim, int64_t gcd) {
  Dim out;
  for (const DimTerm &term : dim.terms())
    out = out + toDim({term.coefficient / gcd, term.atoms});
  return out;
}

/// The only term, when it is 1 * one atom of that kind with a constant positive divisor.
const DimAtom *soleAtom(const DimTerm &term, DimAtom::Kind kind) {
  if (term.atoms.size() != 1 || term.atoms[0].kind != kind)
    return nullptr;
  const Dim &divisor = term.atoms[0].args[1];
  return divisor.isConstant() && divisor.value() > 0 ? &term.atoms[0] : nullptr;
}

Dim floorDivConstant(const Dim &a, int64_t c, const std::vector<Sym> &syms) {
  // floordiv(c*q + r, c) = q + floordiv(r, c)
  auto [quotient, rest] = divideByConstant(a, c);
  // floordiv(r, c) = n where n*c <= r < (n+1)*c
  DimRange range = rangeOf(rest, syms);
  bool bounded = range.lo != DimRange::kNegInf && range.hi != DimRange::kInf;
  if (bounded && floorDivInt(range.lo, c) == floorDivInt(range.hi, c))
    return quotient + floorDivInt(range.lo, c);
  // floordiv(g*t + k, g*c') = floordiv(t + floordiv(k, g), c')
  int64_t gcd = gcdOfCoefficients(rest, c);
  rest = termsDivided(rest, gcd) + floorDivInt(rest.constantPart(), gcd);
  c /= gcd;
  // floordiv(floordiv(x, d) + k, c) = floordiv(x + d*k, d*c)
  if (rest.terms().size() == 1 && rest.terms()[0].coefficient == 1) {
    if (const DimAtom *inner = soleAtom(rest.terms()[0], DimAtom::Kind::FloorDiv)) {
      int64_t d = inner->args[1].value();
      return quotient +
             floorDivConstant(inner->args[0] + Dim(d) * rest.constantPart(), checkedMul(d, c), syms);
    }
  }
  return quotient + Dim::floorDiv(rest, c);
}

/// mod(k*mod(x, d) + r, c) = mod(k*x + r, c) when c divides k*d; coefficients lose their multiples of c.
Dim modOperand(const Dim &a, int64_t c) {
  Dim out(floorModInt(a.constantPart(), c));
  for (const DimTerm &term : a.terms()) {
    int64_t k = term.coefficient % c;
    const DimAtom *inner = soleAtom(term, DimAtom::Kind::Mod);
    bool opens = inner && checkedMul(k, inner->args[1].value()) % c == 0;
    out = out + (opens ? Dim(k) * inner->args[0] : toDim({k, term.atoms}));
  }
  return out;
}

Dim modConstant(const Dim &a, int64_t c, const std::vector<Sym> &syms) {
  Dim rest = modOperand(a, c);
  // mod(r, c) = r - n*c where n*c <= r < (n+1)*c
  DimRange range = rangeOf(rest, syms);
  bool bounded = range.lo != DimRange::kNegInf && range.hi != DimRange::kInf;
  if (bounded && floorDivInt(range.lo, c) == floorDivInt(range.hi, c))
    return rest - Dim(floorDivInt(range.lo, c)) * c;
  // mod(g*t, g*c') = g * mod(t, c')
  int64_t gcd = gcdOfCoefficients(rest, c);
  if (gcd > 1 && rest.constantPart() % gcd == 0)
    return Dim(gcd) * Dim::mod(termsDivided(rest, gcd) + rest.constantPart() / gcd, c / gcd);
  return Dim::mod(rest, c);
}

Dim simplifyDivision(bool isMod, const Dim &a, const Dim &b, const std::vector<Sym> &syms) {
  if (b.isConstant() && b.value() > 0)
    return isMod ? modConstant(a, b.value(), syms) : floorDivConstant(a, b.value(), syms);
  DimRange divisor = rangeOf(b, syms);
  if (b.isConstant() || divisor.lo < 1) // a divisor that may be 0 must go on failing
    return isMod ? Dim::mod(a, b) : Dim::floorDiv(a, b);
  // floordiv(b*q + r, b) = q + floordiv(r, b);  mod(b*q + r, b) = mod(r, b);  and 0 <= r < b
  auto [quotient, rest] = divideBySymbolic(a, b);
  DimRange range = rangeOf(rest, syms);
  bool isRemainder = range.lo >= 0 && range.hi < divisor.lo;
  if (isMod)
    return isRemainder ? rest : Dim::mod(rest, b);
  return isRemainder ? quotient : quotient + Dim::floorDiv(rest, b);
}

Dim simplifyAtom(const DimAtom &atom, const std::vector<Sym> &syms) {
  if (atom.kind == DimAtom::Kind::Sym)
    return Dim::sym(atom.sym);
  Dim a = simplify(atom.args[0], syms), b = simplify(atom.args[1], syms);
  return simplifyDivision(atom.kind == DimAtom::Kind::Mod, a, b, syms);
}

/// k*mod(x, c) + k*c*floordiv(x, c) = k*x
Dim joinRemainders(const Dim &dim) {
  for (const DimTerm &term : dim.terms()) {
    const DimAtom *mod = soleAtom(term, DimAtom::Kind::Mod);
    if (!mod)
      continue;
    const Dim &x = mod->args[0], &c = mod->args[1];
    DimAtom div{DimAtom::Kind::FloorDiv, {}, {x, c}};
    for (const DimTerm &other : dim.terms()) {
      bool matches = other.atoms.size() == 1 && other.atoms[0] == div && other.coefficient % c.value() == 0 &&
                     other.coefficient / c.value() == term.coefficient;
      if (matches)
        return joinRemainders(dim - toDim(term) - toDim(other) + Dim(term.coefficient) * x);
    }
  }
  return dim;
}
} // namespace

Dim simplify(const Dim &dim, const std::vector<Sym> &syms) {
  Dim sum(dim.constantPart());
  for (const DimTerm &term : dim.terms()) {
    Dim product(term.coefficient);
    for (const DimAtom &atom : term.atoms)
      product = product * simplifyAtom(atom, syms);
    sum = sum + product;
  }
  return joinRemainders(sum);
}

bool provablyEqual(const Dim &a, const Dim &b, const std::vector<Sym> &syms) {
  if (a == b)
    return true;
  Dim difference = simplify(a - b, syms);
  return rangeOf(difference, syms) == DimRange{0, 0};
}

} // namespace graphopt::ir
