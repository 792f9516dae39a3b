// Syms, types and the contents of declarations.
#include "ir/verifier.h"

#include <algorithm>
#include <cctype>
#include <graphopt/error.h>

namespace graphopt::ir {

namespace {
class TypeChecker {
public:
  explicit TypeChecker(Verifier &verifier) : v_(verifier) {}

  void run() {
    checkDeclaredSyms();
    for (const Value *value : v_.graph.declarations()) {
      checkValue(*value);
      checkDeclaration(*value);
    }
    walk(v_.graph.body(), [&](const Op &op) {
      for (const NamedAttr &attr : op.attrs)
        v_.checkSyms(attr.value, op.loc, attr.name);
      for (const Value *result : op.results())
        checkResult(*result);
    });
  }

private:
  void checkDeclaredSyms() {
    const std::vector<Sym> &syms = v_.graph.syms;
    for (size_t i = 0; i < syms.size(); ++i) {
      const Sym &sym = syms[i];
      bool isCapital = !sym.name.empty() && std::isupper(static_cast<unsigned char>(sym.name[0]));
      if (!isCapital)
        v_.error(Loc{}, fmt::format("sym '{}' does not start with a capital letter", sym.name));
      if (v_.graph.findSym(sym.name) != &sym)
        v_.error(Loc{}, fmt::format("sym '{}' is declared twice", sym.name));
      if (sym.range.lo > sym.range.hi)
        v_.error(Loc{},
                 fmt::format("sym '{}' has the empty range [{}, {}]", sym.name, sym.range.lo, sym.range.hi));
    }
  }

  void checkValue(const Value &value) {
    const Type &type = value.type;
    if (!type.isTensor()) {
      if (!type.sizes.empty() || type.strides)
        v_.error(value, "is a scalar, but has sizes or strides");
      return;
    }
    for (const Dim &size : type.sizes)
      v_.checkSyms(size, value.loc, "a size");
    if (type.strides)
      for (const Dim &stride : *type.strides)
        v_.checkSyms(stride, value.loc, "a stride");
    if (type.wrapped && type.rank() > 0)
      v_.error(value, "is a wrapped number with {} dims, expected none", type.rank());
    checkLayout(value);
  }

  void checkLayout(const Value &value) {
    const Type &type = value.type;
    try {
      for (const Dim &size : type.sizes)
        if (rangeOf(size, v_.graph.syms).hi < 0)
          v_.error(value, "has the negative size {}", toString(size));
      if (!type.strides)
        return;
      if (type.strides->size() != type.rank())
        v_.error(value, "has {} strides for {} dims", type.strides->size(), type.rank());
      else if (*type.strides == contiguousStrides(type.sizes))
        v_.error(value, "has strides, but they are those of a contiguous tensor: leave them out");
    } catch (const Error &overflow) { // from arithmetic on dims
      v_.error(value, "has sizes out of bounds: {}", overflow.what());
    }
  }

  void checkResult(const Value &value) {
    checkValue(value);
    if (value.type.grad)
      v_.error(value, "is a result and says grad, which only declarations do");
    if (!value.content.isNone() || !value.contentHash.empty())
      v_.error(value, "is a result and has a content");
  }

  void checkDeclaration(const Value &value) {
    using Kind = Value::Kind;
    bool mustBeTensor =
        value.kind == Kind::Param || value.kind == Kind::Buffer || value.kind == Kind::Outside;
    if (mustBeTensor && !value.type.isTensor())
      v_.error(value, "is a {} of type {}, expected a tensor", toString(value.kind), toString(value.type));
    bool hasContent = !value.content.isNone();
    bool hasHash = !value.contentHash.empty();
    switch (value.kind) {
    case Kind::Input:
    case Kind::Param:
    case Kind::Buffer:
    case Kind::Outside:
    case Kind::Cotangent:
    case Kind::Result:
      if (hasContent || hasHash)
        v_.error(value, "is a {} and has a content", toString(value.kind));
      return;
    case Kind::HostVal:
      if (!hasContent || hasHash)
        v_.error(value, "is a hostval without a content");
      break;
    case Kind::Const:
      if (hasContent == hasHash)
        v_.error(value, "is a const, expected either a content or the hash of a file");
      break;
    }
    if (hasContent && !contentFits(value.content, value.type))
      v_.error(value, "has the content {}, which is no {}", toString(value.content), toString(value.type));
  }

  static bool contentFits(const Attr &content, const Type &type) {
    switch (type.kind) {
    case Type::Kind::Tensor:
      return tensorFits(content, type, 0);
    case Type::Kind::Int:
      return content.isInt();
    case Type::Kind::Float:
      return content.kind() == Attr::Kind::Float;
    case Type::Kind::Bool:
      return content.kind() == Attr::Kind::Bool;
    case Type::Kind::List:
      return content.isList();
    case Type::Kind::None:
      return content.isNone();
    }
    return false;
  }

  /// Nested lists as deep as the tensor has dims; a size that is no number fits any length.
  static bool tensorFits(const Attr &content, const Type &type, size_t dim) {
    if (dim == type.rank())
      return elementFits(content, type.dtype);
    const Dim &size = type.sizes[dim];
    if (!content.isList())
      return false;
    if (size.isConstant() && size.value() != static_cast<int64_t>(content.items().size()))
      return false;
    auto fits = [&](const Attr &item) { return tensorFits(item, type, dim + 1); };
    return std::all_of(content.items().begin(), content.items().end(), fits);
  }

  static bool elementFits(const Attr &element, DType dtype) {
    if (dtype == DType::Bool)
      return element.kind() == Attr::Kind::Bool;
    if (isInteger(dtype))
      return element.isInt();
    if (isFloating(dtype))
      return element.kind() == Attr::Kind::Float;
    return element.kind() == Attr::Kind::Complex;
  }

  Verifier &v_;
};
} // namespace

void Verifier::checkSyms(const Dim &dim, Loc loc, std::string_view where) {
  std::vector<std::string> names;
  dim.collectSyms(names);
  for (const std::string &name : names)
    if (!graph.findSym(name))
      error(loc, fmt::format("{} uses sym '{}', which is not declared", where, name));
}

void Verifier::checkSyms(const Attr &attr, Loc loc, std::string_view where) {
  if (attr.isInt())
    checkSyms(attr.asDim(), loc, where);
  if (attr.isList())
    for (const Attr &item : attr.items())
      checkSyms(item, loc, where);
}

void Verifier::checkTypes() { TypeChecker(*this).run(); }

} // namespace graphopt::ir
