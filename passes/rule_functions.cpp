// The functions of the rule language. None sees data: what a rule asks is known while it is applied.
//
//   prims              by name, operands then attributes in the row's order: sum(x, [1], true)
//   refuse("reason")   the operator stays as it is
//
// Of tensors and results (out, outs[1])
//   sizes(x) size(x, d) rank(x) numel(x) dtype(x)
//   dim(x, d)          counted from 0
//   dims(x, list)      the same; an empty or missing list is all dims; a 0-dim tensor has none
//   count(x, dims)     the elements along these dims
//   same_sizes(x, y)   provably
//
// Of lists; l + l joins two, l[-1] is the last
//   len(l) take(l, n) drop(l, n) repeat(v, n) range(a, b) product(l)      a negative n counts from the end
//   interleave(a, b)   a0 b0 a1 b1 ...
//   starts(l)          for each item the sum of those before it
//   swapped(n, a, b)   0 .. n - 1 with a and b exchanged
//
// Of numbers and dtypes
//   min(a, b) max(a, b) floordiv(a, b) mod(a, b)
//   is_constant(n)     no sym in it
//   is_whole(n) whole(n) real(n)     an integer, however it is written; as an integer; as a fraction
//   is_floating(t) is_low(t) is_integer(t) is_bool(t) largest(t) epsilon(t)      low: f16 and bf16
//   as_dtype(n, t)     a number as a literal of a dtype, converted as a C cast does
#include "passes/rule_eval.h"

#include "ir/op_table.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <graphopt/error.h>
#include <limits>
#include <optional>

namespace graphopt::passes {
namespace {
using Args = std::vector<RuleValue>;
using Kind = RuleValue::Kind;

RuleValue number(ir::Dim value) { return RuleValue::of(ir::Attr::integer(std::move(value))); }
RuleValue boolean(bool value) { return RuleValue::of(ir::Attr::boolean(value)); }

RuleValue dimValues(const std::vector<ir::Dim> &dims) {
  Args items;
  for (const ir::Dim &dim : dims)
    items.push_back(number(dim));
  return RuleValue::list(std::move(items));
}

// ---- of tensors

/// d counted from 0. A 0-dim tensor counts as one of one dim, as in ATen.
int64_t countedDim(const RuleValue &x, const RuleValue &d) {
  const int64_t rank = std::max<int64_t>(1, static_cast<int64_t>(typeOf(x).rank()));
  const int64_t given = intOf(d), dim = given < 0 ? given + rank : given;
  if (dim < 0 || dim >= rank)
    throw CannotDecompose{fmt::format("dim {} of {}", given, rank)};
  return dim;
}

RuleValue countedDims(const Args &args) {
  const auto rank = static_cast<int64_t>(typeOf(args[0]).rank());
  const bool isAll = args[1].isNone() || (args[1].kind == Kind::List && args[1].items.empty());
  Args dims;
  if (rank == 0)
    return RuleValue::list({});
  if (isAll)
    for (int64_t i = 0; i < rank; ++i)
      dims.push_back(number(i));
  else if (args[1].kind != Kind::List)
    dims.push_back(number(countedDim(args[0], args[1])));
  else
    for (const RuleValue &dim : itemsOf(args[1]))
      dims.push_back(number(countedDim(args[0], dim)));
  return RuleValue::list(std::move(dims));
}

RuleValue count(const Args &args) {
  ir::Dim product = 1;
  for (const RuleValue &dim : itemsOf(args[1]))
    product = product * typeOf(args[0]).sizes.at(static_cast<size_t>(intOf(dim)));
  return number(product);
}

// ---- of lists

size_t place(const RuleValue &n, size_t count) {
  const int64_t given = intOf(n), at = given < 0 ? given + static_cast<int64_t>(count) : given;
  if (at < 0 || at > static_cast<int64_t>(count))
    throw CannotDecompose{fmt::format("{} items of a list of {}", given, count)};
  return static_cast<size_t>(at);
}

Args part(const Args &items, size_t from, size_t to) {
  return {items.begin() + static_cast<std::ptrdiff_t>(from), items.begin() + static_cast<std::ptrdiff_t>(to)};
}

RuleValue take(const Args &args) {
  const Args &items = itemsOf(args[0]);
  return RuleValue::list(part(items, 0, place(args[1], items.size())));
}

RuleValue drop(const Args &args) {
  const Args &items = itemsOf(args[0]);
  return RuleValue::list(part(items, place(args[1], items.size()), items.size()));
}

RuleValue range(const Args &args) {
  Args items;
  for (int64_t i = intOf(args[0]), end = intOf(args[1]); i < end; ++i)
    items.push_back(number(i));
  return RuleValue::list(std::move(items));
}

RuleValue interleave(const Args &args) {
  const Args &a = itemsOf(args[0]), &b = itemsOf(args[1]);
  Args items;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    items.insert(items.end(), {a[i], b[i]});
  return RuleValue::list(std::move(items));
}

RuleValue starts(const Args &args) {
  ir::Dim sum = 0;
  Args items;
  for (const RuleValue &item : itemsOf(args[0])) {
    items.push_back(number(sum));
    sum = sum + dimOf(item);
  }
  return RuleValue::list(std::move(items));
}

RuleValue swapped(const Args &args) {
  Args items = itemsOf(range({number(0), args[0]}));
  std::swap(items.at(static_cast<size_t>(intOf(args[1]))), items.at(static_cast<size_t>(intOf(args[2]))));
  return RuleValue::list(std::move(items));
}

// ---- of numbers

RuleValue smaller(const RuleValue &a, const RuleValue &b) { return realOf(b) < realOf(a) ? b : a; }
RuleValue larger(const RuleValue &a, const RuleValue &b) { return realOf(b) > realOf(a) ? b : a; }

RuleValue asDType(const Args &args) {
  const ir::DType dtype = dtypeOf(args[1]);
  const bool isBool = args[0].kind == Kind::Host && args[0].host.kind() == ir::Attr::Kind::Bool;
  const double value = isBool ? (args[0].host.asBool() ? 1 : 0) : isDim(args[0]) ? 1 : realOf(args[0]);
  if (isDim(args[0]) && dtype != ir::DType::Bool)
    return args[0];
  if (dtype == ir::DType::Bool)
    return boolean(isDim(args[0]) ? dimOf(args[0]) != ir::Dim(0) : value != 0);
  if (!ir::isInteger(dtype))
    return RuleValue::of(ir::Attr::real(value));
  if (!(value > -9.2e18 && value < 9.2e18))
    throw CannotDecompose{"a number that no integer holds"};
  return number(static_cast<int64_t>(value));
}

struct FloatLimits {
  ir::DType dtype;
  double largest, epsilon; // epsilon: of 1
};
const FloatLimits kFloatLimits[] = {
    {ir::DType::Half, 65504, std::ldexp(1, -10)},
    {ir::DType::BFloat16, std::ldexp(255, 120), std::ldexp(1, -7)},
    {ir::DType::Float, std::numeric_limits<float>::max(), std::ldexp(1, -23)},
    {ir::DType::Double, std::numeric_limits<double>::max(), std::ldexp(1, -52)},
};

const FloatLimits &limitsOf(const RuleValue &dtype) {
  for (const FloatLimits &limits : kFloatLimits)
    if (limits.dtype == dtypeOf(dtype))
      return limits;
  throw CannotDecompose{"a dtype that is no ordinary floating one"};
}

bool sameSizes(const Args &args, CoreBuilder &builder) {
  const auto &a = typeOf(args[0]).sizes, &b = typeOf(args[1]).sizes;
  auto same = [&](const ir::Dim &x, const ir::Dim &y) { return ir::provablyEqual(x, y, builder.syms()); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

// ---- the list of functions

struct Function {
  std::string_view name;
  size_t arity;
  std::function<RuleValue(const Args &, CoreBuilder &)> compute;
};

std::vector<Function> hostFunctions() {
  auto plain = [](RuleValue (*f)(const Args &)) {
    return [f](const Args &args, CoreBuilder &) { return f(args); };
  };
  auto ofDType = [](bool (*f)(ir::DType)) {
    return [f](const Args &args, CoreBuilder &) { return boolean(f(dtypeOf(args[0]))); };
  };
  auto simple = [](auto f) { return [f](const Args &args, CoreBuilder &) { return f(args); }; };
  return {
      {"sizes", 1, simple([](const Args &a) { return dimValues(typeOf(a[0]).sizes); })},
      {"size", 2, simple([](const Args &a) {
         return number(typeOf(a[0]).rank() == 0
                           ? ir::Dim(1)
                           : typeOf(a[0]).sizes[static_cast<size_t>(countedDim(a[0], a[1]))]);
       })},
      {"rank", 1, simple([](const Args &a) { return number(static_cast<int64_t>(typeOf(a[0]).rank())); })},
      {"numel", 1, simple([](const Args &a) { return number(typeOf(a[0]).numel()); })},
      {"dtype", 1, simple([](const Args &a) {
         return RuleValue::of(ir::Attr::word(std::string(ir::dtypeName(typeOf(a[0]).dtype))));
       })},
      {"dim", 2, simple([](const Args &a) { return number(countedDim(a[0], a[1])); })},
      {"dims", 2, plain(countedDims)},
      {"count", 2, plain(count)},
      {"len", 1, simple([](const Args &a) { return number(static_cast<int64_t>(itemsOf(a[0]).size())); })},
      {"take", 2, plain(take)},
      {"drop", 2, plain(drop)},
      {"repeat", 2, simple([](const Args &a) {
         return RuleValue::list(Args(static_cast<size_t>(std::max<int64_t>(0, intOf(a[1]))), a[0]));
       })},
      {"range", 2, plain(range)},
      {"product", 1, simple([](const Args &a) {
         ir::Dim all = 1;
         for (const RuleValue &item : itemsOf(a[0]))
           all = all * dimOf(item);
         return number(all);
       })},
      {"min", 2, simple([](const Args &a) { return smaller(a[0], a[1]); })},
      {"max", 2, simple([](const Args &a) { return larger(a[0], a[1]); })},
      {"mod", 2, simple([](const Args &a) { return number(ir::Dim::mod(dimOf(a[0]), dimOf(a[1]))); })},
      {"is_constant", 1,
       simple([](const Args &a) { return boolean(!isDim(a[0]) || dimOf(a[0]).isConstant()); })},
      {"is_whole", 1, simple([](const Args &a) {
         return boolean(isDim(a[0]) || realOf(a[0]) == std::floor(realOf(a[0])));
       })},
      {"whole", 1,
       simple([](const Args &a) { return isDim(a[0]) ? a[0] : number(static_cast<int64_t>(realOf(a[0]))); })},
      {"real", 1, simple([](const Args &a) { return RuleValue::of(ir::Attr::real(realOf(a[0]))); })},
      {"interleave", 2, plain(interleave)},
      {"starts", 1, plain(starts)},
      {"swapped", 3, plain(swapped)},
      {"as_dtype", 2, plain(asDType)},
      {"largest", 1,
       simple([](const Args &a) { return RuleValue::of(ir::Attr::real(limitsOf(a[0]).largest)); })},
      {"epsilon", 1,
       simple([](const Args &a) { return RuleValue::of(ir::Attr::real(limitsOf(a[0]).epsilon)); })},
      {"is_floating", 1, ofDType(ir::isFloating)},
      {"is_low", 1,
       ofDType([](ir::DType dtype) { return dtype == ir::DType::Half || dtype == ir::DType::BFloat16; })},
      {"is_integer", 1, ofDType(ir::isInteger)},
      {"is_bool", 1, ofDType([](ir::DType dtype) { return dtype == ir::DType::Bool; })},
      {"same_sizes", 2, [](const Args &a, CoreBuilder &b) { return boolean(sameSizes(a, b)); }},
      {"refuse", 1,
       [](const Args &a, CoreBuilder &) -> RuleValue { throw CannotDecompose{attrOf(a[0]).text()}; }},
  };
}

const Function *findHostFunction(std::string_view name) {
  static const std::vector<Function> functions = hostFunctions();
  auto it =
      std::find_if(functions.begin(), functions.end(), [&](const Function &f) { return f.name == name; });
  return it == functions.end() ? nullptr : &*it;
}

// ---- prims

/// Casts, broadcasts and reshapes that change nothing make nothing.
std::optional<RuleValue> shortForm(std::string_view name, const Args &args, CoreBuilder &builder) {
  if (name == "cast" && args.size() == 2)
    return RuleValue::of(builder.cast(tensorOf(args[0]), dtypeOf(args[1])));
  if (name == "broadcast" && args.size() == 2)
    return RuleValue::of(builder.broadcast(tensorOf(args[0]), dimsOf(args[1])));
  if (name == "reshape" && args.size() == 2)
    return RuleValue::of(builder.reshape(tensorOf(args[0]), dimsOf(args[1])));
  if (name == "floordiv" && isDim(args[0]) && isDim(args[1]))
    return number(ir::Dim::floorDiv(dimOf(args[0]), dimOf(args[1])));
  return std::nullopt;
}

RuleValue callPrim(const ir::PrimRow &row, const Args &args, CoreBuilder &builder) {
  const ir::PrimSignature signature = ir::signatureOf(row);
  const size_t operandCount = signature.operands.size();
  GO_ASSERT(args.size() == operandCount + signature.attrs.size(),
            "a rule gives another number of arguments to " + std::string(row.name));
  std::vector<ir::Operand> operands;
  for (size_t i = 0; i < operandCount && !signature.list; ++i)
    operands.push_back(operandOf(args[i]));
  if (signature.list) {
    std::vector<ir::Operand> items;
    for (const RuleValue &item : itemsOf(args[0]))
      items.push_back(operandOf(item));
    operands.push_back(ir::Operand::list(std::move(items)));
  }
  if (row.fusion == ir::FusionClass::Point && signature.attrs.empty())
    return RuleValue::of(builder.point(row.name, std::move(operands)));
  CoreBuilder::Attrs attrs;
  for (size_t i = 0; i < signature.attrs.size(); ++i)
    attrs.push_back({std::string(signature.attrs[i]), attrOf(args[operandCount + i])});
  return RuleValue::of(builder.prim(row.name, std::move(operands), std::move(attrs)));
}

} // namespace

RuleValue callRuleFunction(std::string_view name, const Args &args, CoreBuilder &builder) {
  if (auto value = shortForm(name, args, builder))
    return *value;
  if (const ir::PrimRow *row = ir::findPrim("prim." + std::string(name)))
    return callPrim(*row, args, builder);
  const Function *function = findHostFunction(name);
  GO_ASSERT(function && function->arity == args.size(),
            fmt::format("a rule calls '{}' with {} arguments", name, args.size()));
  return function->compute(args, builder);
}

} // namespace graphopt::passes
