// The language of the `scalar` column of prims.def: what one element of a prim is, printed later as CUDA or
// LLVM.
//
//   $0 $1 ...        the operand's element; of a reduction, two partial results
//   @name            the attribute
//   1  0.5  inf      a number, in the dtype of what it meets
//   f(a, b)          a function of scalarFunctions()
//   - ~ !            unary
//   * / %  + -  << >>  < <= > >=  == !=  &  ^  |  &&  ||     binary, binding as in C
//   a ? b : c        choice; both sides may be computed
//
// Everything is computed in the dtype of the operands (a kernel may keep f16 and bf16 in f32). `/` is true
// division; on bool `~` is logical not, and & | ^ are the logical operators.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace graphopt::ir {

struct ScalarExpr {
  enum class Kind { Operand, Attribute, Number, Call, Unary, Binary, Choice };
  Kind kind = Kind::Number;
  size_t operand = 0; // Operand: its position
  double number = 0;  // Number
  std::string text;   // Attribute and Call: the name. Unary, Binary: the operator. Number: as written
  std::vector<ScalarExpr> args; // Call, Unary, Binary; Choice: condition, then, else
};

struct ScalarFunction {
  std::string_view name;
  size_t arity;
  std::string_view meaning; // where the name does not say it all
};
/// The closed list of functions.
std::span<const ScalarFunction> scalarFunctions();

/// The tree of an expression, or what is wrong with it ("unknown function 'foo' at column 3").
std::variant<ScalarExpr, std::string> parseScalar(std::string_view text);

/// Positions of the operands used, each once, in order; and the attributes used, likewise by name.
std::vector<size_t> operandsOf(const ScalarExpr &expr);
std::vector<std::string> attributesOf(const ScalarExpr &expr);

/// The text with every operation in parentheses: "($0 + ($1 * 2))". Parsing it gives the same tree.
std::string toString(const ScalarExpr &expr);

} // namespace graphopt::ir
