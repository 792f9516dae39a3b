// Every decomposition against the operator itself, on the cases of rule_cases.def.
#include "passes/core_rules.h"

#include "ir/parse.h"
#include "ir/print.h"
#include "passes/manager.h"
#include "passes/promote.h"
#include "rule_check.h"
#include "runtime/interpret.h"
#include "runtime/operator.h"

#include <torch/torch.h>

#include <gtest/gtest.h>
#include <set>

namespace graphopt::passes {
namespace {

const RuleCase kCases[] = {
#include "rule_cases.def"
};

std::string place(const RuleCase &c) { return std::string(c.call) + " of " + c.operands; }

TEST(CoreRules, GiveWhatTheOperatorGives) {
  for (const RuleCase &c : kCases) {
    const CoreRule *rule = findCoreRule(operatorOf(c));
    ASSERT_TRUE(rule) << c.call;
    try {
      EXPECT_EQ(checkRule(*rule, c), "") << place(c);
    } catch (const std::exception &error) {
      ADD_FAILURE() << place(c) << ": " << error.what();
    }
  }
}

/// Tested apart, since no CPU kernel computes them.
const std::set<std::string_view> kElsewhere = {"aten._fused_rms_norm_backward", "aten.cudnn_batch_norm",
                                               "aten.cudnn_batch_norm_backward"};

// ---- a case must notice when a rule is wrong

/// Another operator in the place of this one; "" where none makes a sensible mistake.
std::string_view mistakeFor(const RuleExpr &expr) {
  static constexpr std::pair<std::string_view, std::string_view> kMistakes[] = {
      {"+", "-"}, {"-", "+"},  {"*", "+"},  {"/", "*"},  {"<", ">"},
      {">", "<"}, {"<=", ">"}, {">=", "<"}, {"==", "!="}};
  for (const auto &[right, wrong] : kMistakes)
    if (expr.kind == RuleExpr::Kind::Binary && expr.text == right)
      return wrong;
  return "";
}

/// All operators of a rule that can be mistaken, in order.
void findOperators(std::vector<RuleExpr> &exprs, std::vector<RuleExpr *> &found) {
  for (RuleExpr &expr : exprs) {
    if (!mistakeFor(expr).empty())
      found.push_back(&expr);
    findOperators(expr.args, found);
  }
}
void findOperators(std::vector<RuleStmt> &stmts, std::vector<RuleExpr *> &found) {
  for (RuleStmt &stmt : stmts) {
    findOperators(stmt.exprs, found);
    findOperators(stmt.then, found);
    findOperators(stmt.otherwise, found);
  }
}

bool isNoticed(const CoreRule &wrong) {
  for (const RuleCase &c : kCases) {
    if (operatorOf(c) != wrong.name)
      continue;
    try {
      if (!checkRule(wrong, c).empty())
        return true;
    } catch (const std::exception &) {
      return true; // the mistake makes the rule itself impossible
    }
  }
  return false;
}

TEST(CoreRules, ACaseNoticesEachWrongOperator) {
  // Choices between two forms of the same number, one of which rounds better or survives an infinity.
  const std::set<std::string> choices = {"aten.lerp.Scalar <", "aten.lerp.Scalar >", "aten.lerp.Tensor <",
                                         "aten.logaddexp ==",  "aten.logaddexp2 ==", "aten.linspace <",
                                         "aten.linspace /"};
  size_t mistakes = 0;
  for (const CoreRule &rule : coreRules()) {
    if (kElsewhere.contains(rule.name))
      continue;
    for (size_t i = 0;; ++i, ++mistakes) {
      CoreRule wrong = rule;
      std::vector<RuleExpr *> operators;
      findOperators(wrong.body, operators);
      if (i == operators.size())
        break;
      const std::string right = operators[i]->text;
      if (choices.contains(std::string(rule.name) + " " + right))
        continue;
      operators[i]->text = mistakeFor(*operators[i]);
      EXPECT_TRUE(isNoticed(wrong)) << rule.name << ": operator " << i << ", " << operators[i]->text
                                    << " for " << right;
    }
  }
  EXPECT_GT(mistakes, 300u);
}

/// What no CPU kernel computes: the derivative of _fused_rms_norm, against autograd.
TEST(CoreRules, DerivativeOfRmsNorm) {
  ir::Graph graph = ir::parseGraph(R"(graph @g version=1 stage=lowered device=cpu {
    input %g: f32[4, 8]
    input %x: f32[4, 8]
    input %rstd: f32[4, 1]
    input %w: f32[8]
    %gx: f32[4, 8], %gw: f32[8] = aten._fused_rms_norm_backward(%g, %x, %rstd, %w) {normalized_shape=[8], output_mask=[true, true]}
    return %gx, %gw
  })");
  at::manual_seed(1);
  const at::Tensor x = at::rand({4, 8}).requires_grad_(), w = at::rand({8}).requires_grad_(),
                   g = at::rand({4, 8});
  const at::Tensor rstd = (x * x).mean(1, true).add(1e-5).rsqrt();
  const auto expected = torch::autograd::grad({x * rstd * w}, {x, w}, {g});
  runPipeline(graph, parsePipeline("decompose"));
  EXPECT_EQ(ir::print(graph).find("aten."), std::string::npos);
  const auto actual =
      runtime::interpret(graph, {{"g", g}, {"x", x.detach()}, {"rstd", rstd.detach()}, {"w", w.detach()}});
  for (size_t i = 0; i < 2; ++i)
    EXPECT_TRUE(at::allclose(expected[i], actual[i], 1e-5, 1e-6)) << expected[i] << actual[i];
}

/// No CPU kernel either: cuDNN's batch norm, against the one of every device.
TEST(CoreRules, CudnnBatchNorm) {
  ir::Graph graph = ir::parseGraph(R"(graph @g version=1 stage=lowered device=cpu {
    input %x: f32[4, 3, 5]
    input %g: f32[4, 3, 5]
    input %w: f32[3]
    input %m: f32[3]
    input %v: f32[3]
    %y: f32[4, 3, 5], %mean, %rstd: f32[3], %space: u8[8], %m.1, %v.1: f32[3] = update (%m, %v, %x, %w) {
      %cm: f32[3] = aten.clone(%m)
      %cv: f32[3] = aten.clone(%v)
      %o: f32[4, 3, 5], %om, %or: f32[3], %os: u8[8] = aten.cudnn_batch_norm(%x, %w, %w, &mut %cm, &mut %cv) {training=true, exponential_average_factor=0.1, epsilon=1e-05}
      yield %o, %om, %or, %os, %cm, %cv
    }
    %gx: f32[4, 3, 5], %gw, %gb: f32[3] = aten.cudnn_batch_norm_backward(%x, %g, %w, %m, %v, %mean, %rstd, %space) {epsilon=1e-05}
    return %y, %mean, %rstd, %m.1, %v.1, %gx, %gw, %gb
  })");
  at::manual_seed(1);
  const at::Tensor x = at::rand({4, 3, 5}), g = at::rand({4, 3, 5}), w = at::rand({3});
  at::Tensor m = at::rand({3}), v = at::rand({3});
  runPipeline(graph, parsePipeline("decompose"));
  EXPECT_EQ(ir::print(graph).find("aten."), std::string::npos);
  const auto actual =
      runtime::interpret(graph, {{"x", x}, {"g", g}, {"w", w}, {"m", m.clone()}, {"v", v.clone()}});
  const auto [y, mean, rstd] = at::native_batch_norm(x, w, w, m, v, true, 0.1, 1e-5);
  const auto [gx, gw, gb] =
      at::native_batch_norm_backward(g, x, w, m, v, mean, rstd, true, 1e-5, {true, true, true});
  const std::vector<at::Tensor> expected = {y, mean, rstd, m, v, gx, gw, gb};
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(at::allclose(expected[i], actual[i], 1e-5, 1e-6)) << i << expected[i] << actual[i];
}

TEST(CoreRules, EachHasACase) {
  std::set<std::string_view> covered = kElsewhere;
  for (const RuleCase &c : kCases)
    covered.insert(findCoreRule(operatorOf(c))->name);
  for (const CoreRule &rule : coreRules())
    EXPECT_TRUE(covered.contains(rule.name)) << rule.name;
}

TEST(CoreRules, NameTheOperatorsArguments) {
  for (const CoreRule &rule : coreRules()) {
    const runtime::Operator *op = runtime::findOperator(rule.name);
    if (!op) {
      ADD_FAILURE() << "no operator " << rule.name;
      continue;
    }
    size_t tensors = 0;
    for (const ir::ArgInfo &arg : op->info.args)
      tensors += arg.role != ir::ArgInfo::Role::Attr;
    EXPECT_EQ(rule.operands.size(), tensors) << rule.name;
    for (const CoreAttr &attr : rule.attrs) {
      auto isIt = [&](const ir::ArgInfo &arg) {
        return arg.role == ir::ArgInfo::Role::Attr && arg.name == attr.name;
      };
      const auto arg = std::find_if(op->info.args.begin(), op->info.args.end(), isIt);
      if (arg == op->info.args.end())
        ADD_FAILURE() << rule.name << " has no attribute " << attr.name;
      else
        EXPECT_EQ(attr.dflt.has_value(), arg->dflt.has_value()) << rule.name << " " << attr.name;
      if (arg != op->info.args.end() && attr.dflt && arg->dflt) {
        EXPECT_EQ(toString(*attr.dflt), toString(*arg->dflt)) << rule.name << " " << attr.name;
      }
    }
  }
}

TEST(Promote, IsAtensPromotion) {
  const std::vector<ir::DType> dtypes = {at::kBool,  at::kByte,   at::kChar,         at::kShort,
                                         at::kInt,   at::kLong,   at::kHalf,         at::kBFloat16,
                                         at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble};
  for (ir::DType a : dtypes)
    for (ir::DType b : dtypes) {
      EXPECT_EQ(passes::promoteTypes(a, b), at::promote_types(a, b)) << a << b;
      for (int form = 0; form < 9; ++form) { // dims, none, wrapped
        auto make = [](ir::DType dtype, int kind) {
          at::Tensor tensor = kind == 0 ? at::zeros({2}, dtype) : at::zeros({}, dtype);
          if (kind == 2)
            tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
          ir::Type type =
              ir::Type::tensor(dtype, kind == 0 ? std::vector<ir::Dim>{2} : std::vector<ir::Dim>{});
          type.wrapped = kind == 2;
          return std::pair(tensor, type);
        };
        const auto [tensorA, typeA] = make(a, form / 3);
        const auto [tensorB, typeB] = make(b, form % 3);
        EXPECT_EQ(commonDType({&typeA, &typeB}), at::result_type(tensorA, tensorB)) << a << b << form;
      }
    }
}

} // namespace
} // namespace graphopt::passes
