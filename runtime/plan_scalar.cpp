// One case a kind of literal; lists hold literals.
#include "runtime/plan_scalar.h"

#include "graphopt/error.h"

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
    if (!attr.asDim().isConstant())
      userError(fmt::format("{} depends on the size {}: a plan needs fixed sizes", where, toString(attr)));
    scalar.kind = Scalar::Kind::Int;
    scalar.integer = attr.asInt();
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

} // namespace graphopt::runtime
