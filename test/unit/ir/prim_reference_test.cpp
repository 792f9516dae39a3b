// prims.def against ATen: each row's reference gives the type that the shape rule computes, and the numbers
// that the scalar expression gives.
#include "ir/parse.h"
#include "ir/scalar_expr.h"
#include "runtime/interpret.h"

#include "prim_examples.h"

#include <ATen/Functions.h>
#include <cmath>
#include <gtest/gtest.h>

using namespace graphopt;
using namespace graphopt::ir;

namespace {
constexpr int64_t kRows = 4; // the sym B

at::ScalarType scalarType(const std::string &name) { return *parseDType(name); }

/// Floats within [0.1, 0.9), where every function but acosh is defined; integers within [1, 6).
at::Tensor filled(at::IntArrayRef sizes, at::ScalarType dtype, int64_t seed) {
  at::Tensor numbers =
      at::arange(c10::multiply_integers(sizes), at::kDouble).mul(7).add(seed * 3).remainder(11).view(sizes);
  if (dtype == at::kBool)
    return numbers.remainder(2).to(at::kBool);
  if (at::isIntegralType(dtype, false))
    return numbers.remainder(5).add(1).to(dtype);
  return numbers.mul(0.07).add(0.1).to(dtype);
}

runtime::Environment environmentFor(const PrimRow &row) {
  at::ScalarType dtype = scalarType(exampleDtype(row));
  runtime::Environment env;
  int64_t seed = 0;
  for (const char *name : {"a", "b", "c"})
    env[name] = filled({kRows, 8}, dtype, ++seed);
  env["short"] = filled({kRows, 7}, dtype, 4);
  env["wide"] = filled({kRows, 1}, dtype, 5);
  env["mask"] = filled({kRows, 8}, at::kBool, 6);
  // Below every size that an example indexes, and different along a row, so that scatter has one winner.
  env["index"] = at::arange(8, at::kLong).expand({kRows, 8}).contiguous();
  env["places"] = at::arange(3, at::kLong);
  env["other"] = filled({kRows, 8}, at::kChar, 7);
  env["complex"] = filled({kRows, 8}, at::kComplexFloat, 8);
  return env;
}

at::Tensor referenceOf(const Graph &graph, const PrimRow &row) {
  return runtime::interpret(graph, environmentFor(row)).at(0);
}

// ---- the scalar language over tensors of one element a position, computed by the C library in f64

using Elements = std::vector<double>;

double applyFunction(const std::string &f, const Elements &x) {
  static const std::map<std::string, double (*)(double)> unary = {
      {"abs", std::fabs},      {"acos", std::acos},       {"acosh", std::acosh}, {"asin", std::asin},
      {"asinh", std::asinh},   {"atan", std::atan},       {"atanh", std::atanh}, {"ceil", std::ceil},
      {"cos", std::cos},       {"cosh", std::cosh},       {"erf", std::erf},     {"erfc", std::erfc},
      {"exp", std::exp},       {"exp2", std::exp2},       {"expm1", std::expm1}, {"floor", std::floor},
      {"lgamma", std::lgamma}, {"log", std::log},         {"log10", std::log10}, {"log1p", std::log1p},
      {"log2", std::log2},     {"round", std::nearbyint}, {"sin", std::sin},     {"sinh", std::sinh},
      {"sqrt", std::sqrt},     {"tan", std::tan},         {"tanh", std::tanh},   {"trunc", std::trunc}};
  if (auto it = unary.find(f); it != unary.end())
    return it->second(x[0]);
  if (f == "digamma")
    return at::digamma(at::scalar_tensor(x[0], at::kDouble)).item<double>();
  if (f == "erfinv")
    return at::erfinv(at::scalar_tensor(x[0], at::kDouble)).item<double>();
  if (f == "rsqrt")
    return 1 / std::sqrt(x[0]);
  if (f == "sign")
    return (x[0] > 0) - (x[0] < 0);
  if (f == "cast")
    return x[0];
  if (f == "max")
    return std::max(x[0], x[1]);
  if (f == "min")
    return std::min(x[0], x[1]);
  if (f == "fma")
    return std::fma(x[0], x[1], x[2]);
  if (f == "floordiv")
    return std::floor(x[0] / x[1]);
  if (f == "remainder")
    return x[0] - std::floor(x[0] / x[1]) * x[1];
  static const std::map<std::string, double (*)(double, double)> binary = {{"atan2", std::atan2},
                                                                           {"copysign", std::copysign},
                                                                           {"fmod", std::fmod},
                                                                           {"hypot", std::hypot},
                                                                           {"pow", std::pow}};
  return binary.at(f)(x[0], x[1]);
}

double applyOperator(const std::string &op, double a, double b) {
  auto integer = [](double x) { return static_cast<int64_t>(x); };
  if (op == "+")
    return a + b;
  if (op == "-")
    return a - b;
  if (op == "*")
    return a * b;
  if (op == "/")
    return a / b;
  if (op == "==")
    return a == b;
  if (op == "!=")
    return a != b;
  if (op == "<")
    return a < b;
  if (op == "<=")
    return a <= b;
  if (op == ">")
    return a > b;
  if (op == ">=")
    return a >= b;
  if (op == "&&")
    return a != 0 && b != 0;
  if (op == "||")
    return a != 0 || b != 0;
  if (op == "&")
    return static_cast<double>(integer(a) & integer(b));
  if (op == "|")
    return static_cast<double>(integer(a) | integer(b));
  if (op == "^")
    return static_cast<double>(integer(a) ^ integer(b));
  if (op == "<<")
    return static_cast<double>(integer(a) << integer(b));
  if (op == ">>")
    return static_cast<double>(integer(a) >> integer(b));
  throw std::invalid_argument("no operator " + op);
}

struct Context {
  Elements operands;
  const Op *op = nullptr; // for attributes
  double index = 0;
};

double evaluate(const ScalarExpr &expr, const Context &at) {
  Elements args;
  for (const ScalarExpr &arg : expr.args)
    args.push_back(evaluate(arg, at));
  switch (expr.kind) {
  case ScalarExpr::Kind::Operand:
    return at.operands.at(expr.operand);
  case ScalarExpr::Kind::Attribute: {
    const Attr &attr = *at.op->attr(expr.text);
    return attr.isInt() ? static_cast<double>(attr.asInt()) : attr.asReal();
  }
  case ScalarExpr::Kind::Number:
    return expr.number;
  case ScalarExpr::Kind::Call:
    return expr.text == "index" ? at.index : applyFunction(expr.text, args);
  case ScalarExpr::Kind::Unary:
    return expr.text == "-" ? -args[0] : static_cast<double>(~static_cast<int64_t>(args[0]));
  case ScalarExpr::Kind::Binary:
    return applyOperator(expr.text, args[0], args[1]);
  case ScalarExpr::Kind::Choice:
    return args[0] != 0 ? args[1] : args[2];
  }
  return 0;
}

/// The expression over whole tensors; a reduction folds the elements of dim 1.
at::Tensor computed(const PrimRow &row, const Op &op, const at::Tensor &like) {
  ScalarExpr expr = std::get<ScalarExpr>(parseScalar(row.scalar));
  runtime::Environment env = environmentFor(row);
  std::vector<at::Tensor> operands;
  op.forEachValue([&](const Operand &o) { operands.push_back(env.at(o.value->name).to(at::kDouble)); });
  at::Tensor result = at::empty(like.sizes(), at::kDouble);
  double *out = result.mutable_data_ptr<double>();
  for (int64_t i = 0; i < result.numel(); ++i) {
    Context at{{}, &op, static_cast<double>(i)};
    if (row.fusion == FusionClass::Reduce) {
      const double *line = operands[0].const_data_ptr<double>() + i * 8;
      out[i] = line[0];
      for (int64_t j = 1; j < 8; ++j) {
        at.operands = {out[i], line[j]};
        out[i] = evaluate(expr, at);
      }
      continue;
    }
    for (const at::Tensor &operand : operands)
      at.operands.push_back(operand.const_data_ptr<double>()[i]);
    out[i] = evaluate(expr, at);
  }
  return result;
}

Graph exampleGraph(const PrimRow &row) {
  PrimExample example = exampleOf(row);
  return parseGraph(graphText(row, example, example.call));
}
} // namespace

TEST(PrimReference, GivesTheTypeOfTheShapeRule) {
  for (const PrimRow &row : prims()) {
    SCOPED_TRACE(row.name);
    Graph graph = exampleGraph(row);
    at::Tensor result = referenceOf(graph, row);
    const Type &type = graph.find("r")->type;
    EXPECT_EQ(result.scalar_type(), type.dtype);
    ASSERT_EQ(static_cast<size_t>(result.dim()), type.rank());
    for (size_t i = 0; i < type.rank(); ++i)
      EXPECT_EQ(result.size(static_cast<int64_t>(i)), *ir::evaluate(type.sizes[i], {{"B", kRows}}));
  }
}

TEST(PrimReference, GivesTheNumbersOfTheScalarExpression) {
  for (const PrimRow &row : prims()) {
    if (row.scalar.empty())
      continue;
    SCOPED_TRACE(row.name);
    Graph graph = exampleGraph(row);
    at::Tensor reference = referenceOf(graph, row);
    at::Tensor own = computed(row, *graph.find("r")->def, reference);
    if (reference.scalar_type() == at::kBool)
      own = own.to(at::kLong).bitwise_and(1); // ~true is false
    double tolerance = reference.scalar_type() == at::kBFloat16 ? 4e-3 : 2e-5;
    EXPECT_TRUE(
        at::allclose(reference.to(at::kDouble), own.to(at::kDouble), tolerance, 1e-6, /*equal_nan=*/true))
        << reference << own;
  }
}
