// One function a rule. A rule throws Refused, which never leaves this file: rules read top to bottom as a
// list of what must hold, and the message arrives as a value.
#include "ir/shape_rules.h"

#include "ir/shape_rules_operands.h"

#include <algorithm>

namespace graphopt::ir {

namespace {
using Operands = PrimOperands;

Type sameRule(const Operands &in) {
  in.requireAlike(0);
  return in.result(in.first().dtype, in.first().sizes);
}

Type predicateRule(const Operands &in) {
  in.requireAlike(0);
  return in.result(DType::Bool, in.first().sizes);
}

Type castRule(const Operands &in) { return in.result(in.dtypeAttr("dtype"), in.value(0).sizes); }

Type whereRule(const Operands &in) {
  const Type &condition = in.value(0);
  if (condition.dtype != DType::Bool)
    refuse("operand #0 is {}, expected a bool condition", toString(condition));
  in.requireAlike(1);
  const Type &data = in.firstFrom(1);
  in.requireSizes(0, data.sizes, "the choices");
  return in.result(data.dtype, data.sizes);
}

Type broadcastRule(const Operands &in) {
  const Type &x = in.value(0);
  std::vector<Dim> size = in.sizesAttr("size");
  if (size.size() < x.rank())
    refuse("attribute 'size' has {} dims, expected at least the operand's {}", size.size(), x.rank());
  size_t added = size.size() - x.rank();
  for (size_t i = 0; i < x.rank(); ++i)
    if (x.sizes[i] != Dim(1) && !in.equal(x.sizes[i], size[added + i]))
      refuse("operand #0 is {}: dim {} cannot become {}", toString(x), i, toString(size[added + i]));
  return in.result(x.dtype, size);
}

Type reshapeRule(const Operands &in) {
  const Type &x = in.value(0);
  Type result = in.result(x.dtype, in.sizesAttr("shape"));
  if (!in.equal(x.numel(), result.numel()))
    refuse("operand #0 has {} elements, attribute 'shape' has {}", toString(x.numel()),
           toString(result.numel()));
  return result;
}

Type transposeRule(const Operands &in) {
  const Type &x = in.value(0);
  std::vector<size_t> dims = in.dimsAttr("dims", x.rank());
  if (dims.size() != x.rank())
    refuse("attribute 'dims' has {} dims, expected all {}", dims.size(), x.rank());
  std::vector<Dim> sizes;
  for (size_t dim : dims)
    sizes.push_back(x.sizes[dim]);
  return in.result(x.dtype, sizes);
}

Type sliceRule(const Operands &in) {
  const Type &x = in.value(0);
  size_t dim = in.dimAttr("dim", x.rank());
  Dim start = in.intAttr("start");
  Dim end = in.intAttr("end");
  std::vector<Dim> sizes = x.sizes;
  if (!in.atMost(0, start) || !in.atMost(end, sizes[dim]))
    refuse("[{}, {}) does not lie within dim {} of {}", toString(start), toString(end), dim, toString(x));
  sizes[dim] = in.stepsBetween(start, end, in.stepAttr("step"));
  return in.result(x.dtype, sizes);
}

Type padRule(const Operands &in) {
  const Type &x = in.value(0);
  std::vector<Dim> pad = in.intsAttr("pad");
  in.requireNumberAttr("value", x.dtype);
  if (pad.size() % 2 != 0 || pad.size() / 2 > x.rank())
    refuse("attribute 'pad' has {} entries, expected two a dim for at most {} dims", pad.size(), x.rank());
  std::vector<Dim> sizes = x.sizes;
  for (size_t i = 0; i < pad.size(); i += 2) { // last dim first, as in ATen
    if (!in.atMost(0, pad[i]) || !in.atMost(0, pad[i + 1]))
      refuse("attribute 'pad' has [{}, {}], expected no negative entry", toString(pad[i]),
             toString(pad[i + 1]));
    Dim &size = sizes[sizes.size() - 1 - i / 2];
    size = size + pad[i] + pad[i + 1];
  }
  return in.result(x.dtype, sizes);
}

Type flipRule(const Operands &in) {
  in.dimsAttr("dims", in.value(0).rank());
  return in.result(in.value(0).dtype, in.value(0).sizes);
}

Type concatRule(const Operands &in) {
  const Type &first = in.value(0);
  size_t dim = in.dimAttr("dim", first.rank());
  std::vector<Dim> sizes = first.sizes;
  for (size_t i = 1; i < in.count(); ++i) {
    const Type &next = in.value(i);
    std::vector<Dim> expected = first.sizes;
    if (next.rank() == first.rank())
      expected[dim] = next.sizes[dim];
    if (next.dtype != first.dtype || !in.equalSizes(next.sizes, expected))
      refuse("list item #{} is {}, expected {} but for dim {}", i, toString(next), toString(first), dim);
    sizes[dim] = sizes[dim] + next.sizes[dim];
  }
  return in.result(first.dtype, sizes);
}

std::vector<Dim> reducedSizes(const Type &x, const std::vector<size_t> &dims, bool keep) {
  std::vector<Dim> sizes;
  for (size_t i = 0; i < x.rank(); ++i) {
    bool reduced = std::find(dims.begin(), dims.end(), i) != dims.end();
    if (!reduced)
      sizes.push_back(x.sizes[i]);
    else if (keep)
      sizes.push_back(1);
  }
  return sizes;
}

Type reduceRule(const Operands &in) {
  const Type &x = in.value(0);
  std::vector<size_t> dims = in.dimsAttr("dim", x.rank());
  // ATen reads an empty list as "all dims".
  if (dims.empty())
    refuse("attribute 'dim' names no dim to reduce");
  return in.result(x.dtype, reducedSizes(x, dims, in.boolAttr("keepdim")));
}

Type reduceOneRule(const Operands &in, DType dtype) {
  const Type &x = in.value(0);
  return in.result(dtype, reducedSizes(x, {in.dimAttr("dim", x.rank())}, in.boolAttr("keepdim")));
}

Type fullRule(const Operands &in) {
  DType dtype = in.dtypeAttr("dtype");
  in.requireNumberAttr("fill_value", dtype);
  return in.result(dtype, in.sizesAttr("size"));
}

Type iotaRule(const Operands &in) {
  DType dtype = in.dtypeAttr("dtype");
  if (!accepts(Accepts::Real, dtype))
    refuse("attribute 'dtype' is {}, expected {}", dtypeName(dtype), toString(Accepts::Real));
  return in.result(dtype, {in.stepsBetween(in.intAttr("start"), in.intAttr("end"), in.stepAttr("step"))});
}

/// index.rank == x.rank, and no longer than x but along `dim`.
void requireIndexInto(const Operands &in, const Type &x, size_t dim) {
  const Type &index = in.indexOperand(1);
  bool fits = index.rank() == x.rank();
  for (size_t i = 0; fits && i < x.rank(); ++i)
    fits = i == dim || in.atMost(index.sizes[i], x.sizes[i]);
  if (!fits)
    refuse("operand #1 is {}, expected no dim but {} to be longer than in {}", toString(index), dim,
           toString(x));
}

Type gatherRule(const Operands &in) {
  const Type &x = in.value(0);
  requireIndexInto(in, x, in.dimAttr("dim", x.rank()));
  return in.result(x.dtype, in.value(1).sizes);
}

Type indexSelectRule(const Operands &in) {
  const Type &x = in.value(0);
  size_t dim = in.dimAttr("dim", x.rank());
  const Type &index = in.indexOperand(1);
  if (index.rank() != 1)
    refuse("operand #1 is {}, expected one dim", toString(index));
  std::vector<Dim> sizes = x.sizes;
  sizes[dim] = index.sizes[0];
  return in.result(x.dtype, sizes);
}

Type scatterRule(const Operands &in) {
  const Type &x = in.value(0);
  requireIndexInto(in, x, in.dimAttr("dim", x.rank()));
  const Type &source = in.value(2);
  if (source.dtype != x.dtype)
    refuse("operand #2 is {}, expected {} to match operand #0", toString(source), dtypeName(x.dtype));
  in.requireSizes(2, in.value(1).sizes, "the index");
  return in.result(x.dtype, x.sizes);
}

Type resultOf(ShapeRule rule, const Operands &in) {
  switch (rule) {
  case ShapeRule::Same:
    return sameRule(in);
  case ShapeRule::Cast:
    return castRule(in);
  case ShapeRule::Predicate:
    return predicateRule(in);
  case ShapeRule::Where:
    return whereRule(in);
  case ShapeRule::Broadcast:
    return broadcastRule(in);
  case ShapeRule::Reshape:
    return reshapeRule(in);
  case ShapeRule::Transpose:
    return transposeRule(in);
  case ShapeRule::Slice:
    return sliceRule(in);
  case ShapeRule::Pad:
    return padRule(in);
  case ShapeRule::Flip:
    return flipRule(in);
  case ShapeRule::Concat:
    return concatRule(in);
  case ShapeRule::Reduce:
    return reduceRule(in);
  case ShapeRule::ReduceOne:
    return reduceOneRule(in, in.value(0).dtype);
  case ShapeRule::ArgReduce:
    return reduceOneRule(in, DType::Long);
  case ShapeRule::Full:
    return fullRule(in);
  case ShapeRule::Iota:
    return iotaRule(in);
  case ShapeRule::Gather:
    return gatherRule(in);
  case ShapeRule::IndexSelect:
    return indexSelectRule(in);
  case ShapeRule::Scatter:
    return scatterRule(in);
  }
  GO_ASSERT(false, "a shape rule without a case");
}
} // namespace

std::variant<std::vector<Type>, std::string> inferTypes(const PrimRow &row, const Op &op,
                                                        const std::vector<Sym> &syms) {
  try {
    Operands in(row, op, syms);
    return std::vector<Type>{resultOf(row.shape, in)};
  } catch (const Error &error) {
    if (error.kind() != Error::Kind::User)
      throw;
    return std::string(error.what());
  }
}

} // namespace graphopt::ir
