// One case a kind of literal; lists hold literals.
#include "runtime/plan_scalar.h"

#include "graphopt/error.h"
#include "ir/parse.h"

#include <algorithm>
#include <fmt/format.h>

namespace graphopt::runtime {

using ir::Attr;

Scalar toScalarData(const Attr &attr, const std::string &where) {
  Scalar scalar;
  switch (attr.kind()) {
  case Attr::Kind::None:
    break;
  case Attr::Kind::Bool:
    scalar.kind = Scalar::Kind::Bool;
    scalar.boolean = attr.asBool();
    break;
  case Attr::Kind::Int:
    scalar.kind = attr.asDim().isConstant() ? Scalar::Kind::Int : Scalar::Kind::Dim;
    if (attr.asDim().isConstant())
      scalar.integer = attr.asInt();
    else
      scalar.text = toString(attr.asDim());
    break;
  case Attr::Kind::Float:
    scalar.kind = Scalar::Kind::Float;
    scalar.real = attr.asReal();
    break;
  case Attr::Kind::Complex:
    scalar.kind = Scalar::Kind::Complex;
    std::tie(scalar.real, scalar.imaginary) = attr.asComplex();
    break;
  case Attr::Kind::String:
  case Attr::Kind::Word:
    scalar.kind = attr.kind() == Attr::Kind::Word ? Scalar::Kind::Word : Scalar::Kind::String;
    scalar.text = attr.text();
    break;
  case Attr::Kind::List:
    scalar.kind = Scalar::Kind::List;
    for (const Attr &item : attr.items())
      scalar.items.push_back(toScalarData(item, where));
    break;
  case Attr::Kind::Opaque:
    userError(fmt::format("{} is {}, which has no text and cannot be run", where, toString(attr)));
  }
  return scalar;
}

Attr toAttr(const Scalar &scalar, const std::vector<std::string> &syms) {
  switch (scalar.kind) {
  case Scalar::Kind::None:
    return {};
  case Scalar::Kind::Bool:
    return Attr::boolean(scalar.boolean);
  case Scalar::Kind::Int:
    return Attr::integer(scalar.integer);
  case Scalar::Kind::Float:
    return Attr::real(scalar.real);
  case Scalar::Kind::Complex:
    return Attr::complex(scalar.real, scalar.imaginary);
  case Scalar::Kind::String:
    return Attr::string(scalar.text);
  case Scalar::Kind::Word:
    return Attr::word(scalar.text);
  case Scalar::Kind::Dim:
    return Attr::integer(ir::parseDim(scalar.text, syms));
  case Scalar::Kind::List: {
    std::vector<Attr> items;
    for (const Scalar &item : scalar.items)
      items.push_back(toAttr(item, syms));
    return Attr::list(std::move(items));
  }
  }
  return {};
}

bool isSymbolic(const Scalar &scalar) {
  return scalar.kind == Scalar::Kind::Dim || std::ranges::any_of(scalar.items, isSymbolic);
}

} // namespace graphopt::runtime
