// The language in which a decomposition is written: what the results of an operator are, in terms of its
// operands and attributes. docs/operators.md shows how a rule reads; this is the grammar.
//
//   rule    ::= (stmt (NEWLINE | ';'))*                     a rule of one expression returns it
//   stmt    ::= names '=' expr | 'if' expr block ('else' (block | if))? | 'return' expr (',' expr)* | expr
//   block   ::= '{' rule '}'
//   expr    ::= binary ('?' expr ':' expr)?                 chosen while the rule is applied
//   binary  ::= unary with || && == != < <= > >= | & ^ + - * /, binding as in C
//   unary   ::= ('-' | '!' | '~') unary | postfix
//   postfix ::= primary ('[' expr ']')*                     an item of a list; negative: from its end
//   primary ::= NUMBER | STRING | NAME | NAME '(' (expr (',' expr)*)? ')' | '(' expr ')'
//             | '[' (expr (',' expr)*)? ']' | '[' expr 'for' NAME 'in' expr ('if' expr)? ']'
//
// Line ends inside parentheses and brackets do not count. A comment starts with '#'.
#pragma once
#include "ir/attr.h"

#include <string>
#include <string_view>
#include <vector>

namespace graphopt::passes {

struct RuleExpr {
  enum class Kind { Literal, Name, Call, Unary, Binary, Choice, List, Item, Each };
  Kind kind = Kind::Literal;
  std::string text; // Name, Call: the name. Unary, Binary: the operator. Each: the variable
  ir::Attr literal; // Literal
  std::vector<RuleExpr> args;
};

struct RuleStmt {
  enum class Kind { Assign, If, Return, Expr };
  Kind kind = Kind::Expr;
  std::vector<std::string> names;        // Assign
  std::vector<RuleExpr> exprs;           // Assign, Expr: one. If: the condition. Return: the results
  std::vector<RuleStmt> then, otherwise; // If
};

/// Parses a rule; GO_ASSERTs that it is well formed, since rules are part of the program.
std::vector<RuleStmt> parseRule(std::string_view text);

} // namespace graphopt::passes
