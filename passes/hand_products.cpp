// LibTorch counts zeros on the host and takes one of two ways for the whole tensor: quotients by the operand
// where there are none, products of what stands before and after each element where there are some
// (prod_backward in FunctionsManual.cpp, cumprod_backward in ReduceOps.cpp). Here both ways run and a 0-dim
// mask picks one, so each element has the bits of the way that eager takes; what eager scatters through a
// mask is a where.
//
// prod of what is not contiguous has no rule: eager's two ways give gradients of different strides. Those of
// cumprod are contiguous both.
#include "passes/hand_products.h"

#include "ir/dim_list.h"
#include "passes/hand_builder.h"

#include <algorithm>

namespace graphopt::passes {
namespace {

using ir::DType;

struct Product {
  const ir::Graph &unit;
  const ir::Op &op;
  const ir::Type &x, &y, &g; // operand, result, cotangent
  size_t result;
  const ir::GradientTypes &soFar;
};

std::vector<ir::Dim> sizesWith(const ir::Type &type, size_t dim, const ir::Dim &size) {
  std::vector<ir::Dim> sizes = type.sizes;
  sizes[dim] = size;
  return sizes;
}

ir::NamedAttr dimAttr(size_t dim) { return {"dim", ir::Attr::integer(static_cast<int64_t>(dim))}; }

/// What both ways of a product share: its parts, and the steps that several formulas take.
class Steps {
public:
  explicit Steps(const Product &product)
      : b(product.unit), x(b.operand(0, product.x)), y(b.result(product.result, product.y)),
        g(b.cotangent(product.g)) {}

  ir::Type like(DType dtype) const { return typeLike(x->type, dtype, x->type.sizes); }
  ir::Type scalar(DType dtype) const { return typeLike(x->type, dtype, {}); }
  ir::Value *pointwise(const char *name, ir::Value *a, ir::Value *c, const ir::Type &type) {
    return b.call(name, {a, c}, typeLike(type, a->type.dtype, type.sizes));
  }
  ir::Value *isEqual(ir::Value *value, int64_t number) {
    return b.call("aten.eq.Scalar", {value}, typeLike(value->type, DType::Bool, value->type.sizes),
                  {{"other", ir::Attr::integer(number)}});
  }
  ir::Value *negated(ir::Value *mask) { return b.call("aten.logical_not", {mask}, mask->type); }
  ir::Value *both(ir::Value *a, ir::Value *c) { return b.call("aten.logical_and", {a, c}, a->type); }
  ir::Value *isAny(ir::Value *mask) { return b.call("aten.any", {mask}, scalar(DType::Bool)); }
  ir::Value *where(ir::Value *mask, ir::Value *a, ir::Value *c) {
    return b.call("aten.where.self", {mask, a, c}, c->type);
  }
  ir::Value *filled(ir::Value *value, ir::Value *mask, ir::Attr number) {
    return b.call("aten.masked_fill.Scalar", {value, mask},
                  typeLike(value->type, value->type.dtype, value->type.sizes),
                  {{"value", std::move(number)}});
  }
  ir::Value *scan(const char *name, ir::Value *value, size_t dim) {
    ir::Type type = value->type;
    type.dtype = type.dtype == DType::Bool ? DType::Long : type.dtype;
    return b.call(name, {value}, type, {dimAttr(dim)});
  }
  ir::Value *flip(ir::Value *value, size_t dim) {
    return b.call("aten.flip", {value}, typeLike(value->type, value->type.dtype, value->type.sizes),
                  {{"dims", ir::Attr::ints({static_cast<int64_t>(dim)})}});
  }
  /// All but the last, or all but the first.
  ir::Value *allButOne(ir::Value *value, size_t dim, int64_t start) {
    const ir::Dim size = value->type.sizes[dim] + ir::Dim(-1);
    ir::Type type = typeLike(value->type, value->type.dtype, sizesWith(value->type, dim, size));
    type.setStrides(value->type.stridesOrContiguous());
    return b.view("aten.slice.Tensor", value, type,
                  {dimAttr(dim),
                   {"start", ir::Attr::integer(start)},
                   {"end", ir::Attr::integer(size + ir::Dim(start))}});
  }

  HandBuilder b;
  ir::Value *x, *const y, *g;
};

// ---- prod

/// A reduced tensor with its dim of size 1 again.
ir::Value *withDim(Steps &s, ir::Value *reduced, size_t dim, const std::vector<ir::Dim> &sizes) {
  if (reduced->type.rank() == sizes.size())
    return reduced;
  std::vector<ir::Dim> strides = reduced->type.stridesOrContiguous();
  const bool isLast = dim == strides.size();
  strides.insert(strides.begin() + static_cast<ptrdiff_t>(dim),
                 isLast ? ir::Dim(1) : reduced->type.sizes[dim] * strides[dim]);
  ir::Type type = typeLike(reduced->type, reduced->type.dtype, sizes);
  type.setStrides(std::move(strides));
  return s.b.view("aten.unsqueeze", reduced, type, {dimAttr(dim)});
}

/// g * (y / x): the way without zeros.
ir::Value *quotients(Steps &s, ir::Value *x, ir::Value *y, ir::Value *g) {
  return s.pointwise("aten.mul.Tensor", g, s.pointwise("aten.div.Tensor", y, x, x->type), x->type);
}

/// The product of the elements before each one, along the dim.
ir::Value *productsBefore(Steps &s, ir::Value *ones, ir::Value *before, size_t dim, const ir::Type &type) {
  return s.scan("aten.cumprod", s.b.concat({ones, before}, static_cast<int64_t>(dim), type), dim);
}

/// The way with zeros: what stands before an element times what stands after it.
ir::Value *productsOfOthers(Steps &s, ir::Value *x, ir::Value *g, size_t dim) {
  const ir::Type type = typeLike(x->type, x->type.dtype, x->type.sizes);
  ir::Value *ones =
      s.b.filled("aten.ones", typeLike(x->type, x->type.dtype, sizesWith(x->type, dim, ir::Dim(1))));
  ir::Value *before = productsBefore(s, ones, s.allButOne(x, dim, 0), dim, type);
  ir::Value *after = s.flip(productsBefore(s, ones, s.flip(s.allButOne(x, dim, 1), dim), dim, type), dim);
  return s.pointwise("aten.mul.Tensor", g, s.pointwise("aten.mul.Tensor", before, after, type), type);
}

/// Without elements there are no zeros.
ir::Graph backwardOfNothing(const Product &product) {
  Steps s(product);
  ir::Value *d = s.b.cast(s.b.filled("aten.zeros", s.like(product.y.dtype)), product.x.dtype);
  return s.b.finish(d, product.soFar);
}

ir::Graph backwardOfAll(const Product &product) {
  Steps s(product);
  ir::Value *x = s.b.cast(s.x, product.y.dtype);
  const ir::Type flatType = typeLike(x->type, x->type.dtype, {x->type.numel()});
  const auto viewed = [&](ir::Value *value, const ir::Type &type) {
    return type.rank() == value->type.rank()
               ? value
               : s.b.view("aten.view", value, type, {{"size", ir::dimList(type.sizes)}});
  };
  ir::Value *zeros = s.b.call("aten.sum", {s.isEqual(x, 0)}, s.scalar(DType::Long));
  ir::Value *areMany =
      s.b.call("aten.gt.Scalar", {zeros}, s.scalar(DType::Bool), {{"other", ir::Attr::integer(1)}});
  ir::Value *flat = productsOfOthers(s, viewed(x, flatType), s.g, 0);
  ir::Value *withZeros = s.filled(viewed(flat, x->type), areMany, ir::Attr::integer(0));
  ir::Value *d = s.where(s.isEqual(zeros, 0), quotients(s, x, s.y, s.g), withZeros);
  return s.b.finish(s.b.cast(d, product.x.dtype), product.soFar);
}

ir::Graph backwardAlong(const Product &product, size_t dim) {
  Steps s(product);
  ir::Value *x = s.b.cast(s.x, product.y.dtype);
  const std::vector<ir::Dim> kept = sizesWith(x->type, dim, ir::Dim(1));
  ir::Value *y = withDim(s, s.y, dim, kept), *g = withDim(s, s.g, dim, kept);
  ir::Value *d = s.where(s.isAny(s.isEqual(x, 0)), productsOfOthers(s, x, g, dim), quotients(s, x, y, g));
  return s.b.finish(s.b.cast(d, product.x.dtype), product.soFar);
}

// ---- cumprod

/// From the end to each element.
ir::Value *sumsFromHere(Steps &s, ir::Value *value, size_t dim) {
  return s.flip(s.scan("aten.cumsum", s.flip(value, dim), dim), dim);
}

struct Gradient {
  ir::Value *isThere, *value; // a mask, and what holds under it
};

/// Of the first zero of each row: the sum of what follows up to the next zero, times the product before it.
Gradient ofFirstZeros(Steps &s, ir::Value *isZero, ir::Value *zerosUpToHere, size_t dim) {
  const ir::Type one = typeLike(s.x->type, s.x->type.dtype, sizesWith(s.x->type, dim, ir::Dim(1)));
  const ir::Type index = typeLike(one, DType::Long, one.sizes), mask = typeLike(one, DType::Bool, one.sizes);
  const ir::NamedAttr along = dimAttr(dim), keepdim = {"keepdim", ir::Attr::boolean(true)};
  ir::Value *isOne = s.isEqual(zerosUpToHere, 1);
  ir::Value *isFirst = s.both(isZero, isOne);
  ir::Value *place = s.b.calls("aten.max.dim", {isOne}, {mask, index}, {along, keepdim})[1];
  ir::Value *isAfter = s.both(isOne, s.negated(isFirst));
  ir::Value *after = s.scan("aten.cumprod", s.filled(s.x, s.negated(isAfter), ir::Attr::real(1)), dim);
  ir::Value *terms =
      s.pointwise("aten.mul.Tensor", after, s.filled(s.g, s.negated(isOne), ir::Attr::real(0)), s.x->type);
  ir::Value *sum = s.b.call("aten.sum.dim_IntList", {terms}, one,
                            {{"dim", ir::Attr::ints({static_cast<int64_t>(dim)})}, keepdim});
  ir::Value *previous = s.b.call(
      "aten.relu", {s.b.call("aten.sub.Scalar", {place}, index, {{"other", ir::Attr::integer(1)}})}, index);
  ir::Value *before = s.filled(s.b.call("aten.gather", {s.y, previous}, one, {along}), s.isEqual(place, 0),
                               ir::Attr::real(1));
  return {isFirst, s.pointwise("aten.mul.Tensor", sum, before, one)};
}

/// Where there are no zeros this is the way without zeros: nothing is filled, and no zero is the first.
ir::Graph backwardOfScan(const Product &product, size_t dim) {
  Steps s(product);
  s.x = s.b.contiguous(s.x);
  s.g = s.b.contiguous(s.g);
  const ir::Type type = s.like(product.x.dtype);
  ir::Value *isZero = s.isEqual(s.x, 0);
  ir::Value *zerosUpToHere = s.scan("aten.cumsum", isZero, dim);
  ir::Value *isBehind = s.negated(s.isEqual(zerosUpToHere, 0));
  ir::Value *terms = s.filled(s.pointwise("aten.mul.Tensor", s.y, s.g, type), isBehind, ir::Attr::real(0));
  ir::Value *before = s.pointwise("aten.div.Tensor", sumsFromHere(s, terms, dim), s.x, type);
  const Gradient first = ofFirstZeros(s, isZero, zerosUpToHere, dim);
  ir::Value *d = s.where(first.isThere, first.value, s.filled(before, isBehind, ir::Attr::real(0)));
  return s.b.finish(d, product.soFar);
}

// ---- which rule

bool isEmpty(const Product &product) { return product.x.numel() == ir::Dim(0); }

bool mayBeEmpty(const Product &product) {
  return std::ranges::any_of(
      product.x.sizes, [&](const ir::Dim &size) { return ir::rangeOf(size, product.unit.syms).lo < 1; });
}

/// Tensors whose layout decides no other's: contiguous ones, and those that repeat one row or number.
bool isNeutral(const ir::Type &type) {
  return !type.strides || std::ranges::count_if(*type.strides, [](const ir::Dim &stride) {
                            return !(stride == ir::Dim(0));
                          }) <= 1;
}

bool isPlain(const std::optional<ir::Type> &type) { return !type || !type->strides; }

/// Whether each of eager's ways of a prod gives a contiguous gradient; along one element it may be the
/// cotangent.
bool hasPlainGradient(const Product &product, size_t dim) {
  const bool isOne = ir::rangeOf(product.x.sizes[dim], product.unit.syms).lo == 1;
  return !product.x.strides && isNeutral(product.g) && (!isOne || !product.g.strides);
}

/// No complex numbers, and a backward that does not run under autocast.
bool hasPlainNumbers(const Product &product) {
  return ir::isFloating(product.x.dtype) && ir::isFloating(product.y.dtype) &&
         product.g.dtype == product.y.dtype &&
         std::ranges::find(product.unit.settings, "backward_amp", &ir::NamedAttr::name) ==
             product.unit.settings.end();
}

size_t dimOf(const Product &product) {
  const int64_t dim = product.op.attr("dim")->asInt();
  return static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(product.x.rank()) : dim);
}

} // namespace

std::optional<ir::Graph> productBackward(const ir::Graph &unit, size_t result,
                                         const ir::GradientTypes &cotangents,
                                         const ir::GradientTypes &soFar) {
  const ir::Op &op = *unit.body().ops().front();
  const Product product{
      unit,   op,   unit.declared(ir::Value::Kind::Input)[0]->type, op.result()->type, *cotangents[0],
      result, soFar};
  if (product.x.rank() == 0 || product.y.strides || !hasPlainNumbers(product) ||
      (!soFar.empty() && !isPlain(soFar[0])))
    return std::nullopt;
  const bool isScan = op.name == "aten.cumprod", isAll = op.name == "aten.prod";
  const size_t dim = isAll ? 0 : dimOf(product);
  if (!isScan && !hasPlainGradient(product, dim))
    return std::nullopt;
  if (!isScan && isEmpty(product))
    return backwardOfNothing(product);
  if (mayBeEmpty(product))
    return std::nullopt;
  if (!isScan)
    return isAll ? backwardOfAll(product) : backwardAlong(product, dim);
  const bool isLong = ir::rangeOf(product.x.sizes[dim], unit.syms).lo > 1;
  return isLong && product.x.dtype == product.y.dtype ? std::optional(backwardOfScan(product, dim))
                                                      : std::nullopt;
}

} // namespace graphopt::passes
