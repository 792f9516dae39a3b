// A walk over the rule's tree with a table of names. Conditions are known while a rule is applied: a choice
// that depends on data is where(), never '?'.
#include "passes/rule_eval.h"

#include <algorithm>
#include <fmt/format.h>
#include <graphopt/error.h>
#include <optional>

namespace graphopt::passes {
namespace {
using Kind = RuleValue::Kind;

class Evaluator {
public:
  Evaluator(RuleScope names, CoreBuilder &builder) : names_(std::move(names)), builder_(builder) {}

  /// The values of the first return or bare expression.
  std::vector<RuleValue> run(const std::vector<RuleStmt> &rule) {
    GO_ASSERT(runBlock(rule), "a rule returns nothing");
    return std::move(results_);
  }

private:
  /// Whether it returned.
  bool runBlock(const std::vector<RuleStmt> &block) {
    for (const RuleStmt &stmt : block)
      if (runStmt(stmt))
        return true;
    return false;
  }

  bool runStmt(const RuleStmt &stmt) {
    switch (stmt.kind) {
    case RuleStmt::Kind::Assign:
      assign(stmt.names, eval(stmt.exprs[0]));
      return false;
    case RuleStmt::Kind::If:
      return runBlock(boolOf(eval(stmt.exprs[0])) ? stmt.then : stmt.otherwise);
    case RuleStmt::Kind::Return:
    case RuleStmt::Kind::Expr:
      for (const RuleExpr &expr : stmt.exprs)
        results_.push_back(eval(expr));
      return true;
    }
    return false;
  }

  void assign(const std::vector<std::string> &names, RuleValue value) {
    if (names.size() == 1) {
      names_[names[0]] = std::move(value);
      return;
    }
    GO_ASSERT(value.kind == Kind::List && value.items.size() == names.size(),
              "a rule assigns another number of values than it names");
    for (size_t i = 0; i < names.size(); ++i)
      names_[names[i]] = std::move(value.items[i]);
  }

  RuleValue eval(const RuleExpr &expr) {
    switch (expr.kind) {
    case RuleExpr::Kind::Literal:
      return RuleValue::of(expr.literal);
    case RuleExpr::Kind::Name:
      return look(expr.text);
    case RuleExpr::Kind::Call:
      return call(expr);
    case RuleExpr::Kind::Unary:
      return unary(expr.text, eval(expr.args[0]));
    case RuleExpr::Kind::Binary:
      return binary(expr);
    case RuleExpr::Kind::Choice:
      return eval(expr.args[boolOf(eval(expr.args[0])) ? 1 : 2]);
    case RuleExpr::Kind::List:
      return RuleValue::list(evalAll(expr.args));
    case RuleExpr::Kind::Item:
      return item(eval(expr.args[0]), intOf(eval(expr.args[1])));
    case RuleExpr::Kind::Each:
      return each(expr);
    }
    return {};
  }

  std::vector<RuleValue> evalAll(const std::vector<RuleExpr> &exprs) {
    std::vector<RuleValue> values;
    for (const RuleExpr &expr : exprs)
      values.push_back(eval(expr));
    return values;
  }

  RuleValue look(const std::string &name) const {
    if (auto known = names_.find(name); known != names_.end())
      return known->second;
    if (ir::parseDType(name))
      return RuleValue::of(ir::Attr::word(name));
    GO_ASSERT(false, "a rule uses the unknown name '" + name + "'");
  }

  RuleValue call(const RuleExpr &expr) {
    std::vector<RuleValue> args = evalAll(expr.args);
    const RuleFunction *function = findRuleFunction(expr.text);
    if (!function)
      return callRuleFunction(expr.text, args, builder_);
    GO_ASSERT(args.size() == function->parameters.size(),
              "a rule calls '" + expr.text + "' with other arguments");
    RuleScope scope;
    for (size_t i = 0; i < args.size(); ++i)
      scope[function->parameters[i]] = std::move(args[i]);
    std::vector<RuleValue> results = Evaluator(std::move(scope), builder_).run(function->body);
    return results.size() == 1 ? results[0] : RuleValue::list(std::move(results));
  }

  RuleValue unary(const std::string &op, const RuleValue &x) {
    if (x.isTensor())
      return RuleValue::of(builder_.point(op == "-" ? "prim.neg" : "prim.bitwise_not", {operandOf(x)}));
    if (op == "!")
      return RuleValue::of(ir::Attr::boolean(!boolOf(x)));
    GO_ASSERT(op == "-", "a rule inverts bits of a number");
    if (x.host.kind() == ir::Attr::Kind::Float)
      return RuleValue::of(ir::Attr::real(-x.host.asReal()));
    return RuleValue::of(ir::Attr::integer(ir::Dim(0) - dimOf(x)));
  }

  /// && and || of host values look at the second only where it matters.
  RuleValue binary(const RuleExpr &expr) {
    RuleValue a = eval(expr.args[0]);
    const bool isChoice = expr.text == "&&" || expr.text == "||";
    if (isChoice && a.kind == Kind::Host && boolOf(a) == (expr.text == "||"))
      return a;
    return applyRuleOperator(expr.text, a, eval(expr.args[1]), builder_);
  }

  static RuleValue item(const RuleValue &list, int64_t index) {
    const auto &items = itemsOf(list);
    const int64_t count = static_cast<int64_t>(items.size());
    const int64_t at = index < 0 ? index + count : index;
    if (at < 0 || at >= count)
      throw CannotDecompose{fmt::format("item {} of a list of {}", index, count)};
    return items[static_cast<size_t>(at)];
  }

  RuleValue each(const RuleExpr &expr) {
    const RuleValue list = eval(expr.args[1]);
    std::vector<RuleValue> values;
    for (const RuleValue &item : itemsOf(list)) {
      names_[expr.text] = item;
      if (expr.args.size() > 2 && !boolOf(eval(expr.args[2])))
        continue;
      values.push_back(eval(expr.args[0]));
    }
    return RuleValue::list(std::move(values));
  }

  RuleScope names_;
  CoreBuilder &builder_;
  std::vector<RuleValue> results_;
};

void flatten(RuleValue value, std::vector<RuleValue> &into) {
  if (value.kind != Kind::List)
    return into.push_back(std::move(value));
  for (RuleValue &item : value.items)
    flatten(std::move(item), into);
}

[[noreturn]] void expected(std::string_view what) {
  throw CannotDecompose{fmt::format("the rule expected {}", what)};
}
} // namespace

RuleValue RuleValue::of(ir::Attr host) {
  if (!host.isList()) {
    RuleValue value;
    value.host = std::move(host);
    return value;
  }
  std::vector<RuleValue> items;
  for (const ir::Attr &item : host.items())
    items.push_back(of(item));
  return list(std::move(items));
}

RuleValue RuleValue::of(ir::Value *tensor) {
  RuleValue value;
  value.kind = Kind::Tensor;
  value.tensor = tensor;
  return value;
}

RuleValue RuleValue::list(std::vector<RuleValue> items) {
  RuleValue value;
  value.kind = Kind::List;
  value.items = std::move(items);
  return value;
}

RuleValue RuleValue::of(const ir::Type *type) {
  RuleValue value;
  value.kind = Kind::Type;
  value.type = type;
  return value;
}

ir::Value *tensorOf(const RuleValue &value) {
  if (!value.isTensor())
    expected("a tensor");
  return value.tensor;
}

const ir::Type &typeOf(const RuleValue &value) {
  return value.kind == Kind::Type ? *value.type : tensorOf(value)->type;
}

ir::Dim dimOf(const RuleValue &value) {
  if (value.kind != Kind::Host || !value.host.isInt())
    expected("an integer");
  return value.host.asDim();
}

int64_t intOf(const RuleValue &value) {
  const ir::Dim dim = dimOf(value);
  if (!dim.isConstant())
    expected("a constant");
  return dim.value();
}

bool boolOf(const RuleValue &value) {
  if (value.kind != Kind::Host || value.host.kind() != ir::Attr::Kind::Bool)
    expected("true or false");
  return value.host.asBool();
}

ir::DType dtypeOf(const RuleValue &value) {
  std::optional<ir::DType> dtype;
  if (value.kind == Kind::Host && value.host.kind() == ir::Attr::Kind::Word)
    dtype = ir::parseDType(value.host.text());
  if (!dtype)
    expected("a dtype");
  return *dtype;
}

const std::vector<RuleValue> &itemsOf(const RuleValue &value) {
  if (value.kind != Kind::List)
    expected("a list");
  return value.items;
}

std::vector<ir::Dim> dimsOf(const RuleValue &value) {
  std::vector<ir::Dim> dims;
  for (const RuleValue &item : itemsOf(value))
    dims.push_back(dimOf(item));
  return dims;
}

ir::Attr attrOf(const RuleValue &value) {
  if (value.kind == Kind::Host)
    return value.host;
  std::vector<ir::Attr> items;
  for (const RuleValue &item : itemsOf(value))
    items.push_back(attrOf(item));
  return ir::Attr::list(std::move(items));
}

ir::Operand operandOf(const RuleValue &value) {
  switch (value.kind) {
  case Kind::Tensor:
    return ir::Operand::of(value.tensor);
  case Kind::Host:
    return ir::Operand::lit(value.host);
  case Kind::List:
  case Kind::Type:
    break;
  }
  expected("a tensor or a number");
}

bool isDim(const RuleValue &value) { return value.kind == Kind::Host && value.host.isInt(); }

bool isNumber(const RuleValue &value) {
  return isDim(value) || (value.kind == Kind::Host && value.host.kind() == ir::Attr::Kind::Float);
}

double realOf(const RuleValue &value) {
  return isDim(value) || !isNumber(value) ? static_cast<double>(intOf(value)) : value.host.asReal();
}

std::vector<RuleValue> evaluateRule(const std::vector<RuleStmt> &rule, RuleScope names,
                                    CoreBuilder &builder) {
  std::vector<RuleValue> results;
  for (RuleValue &value : Evaluator(std::move(names), builder).run(rule))
    flatten(std::move(value), results);
  return results;
}

} // namespace graphopt::passes
