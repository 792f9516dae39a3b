// Builds the one-op graph of a case, runs it three ways and compares.
#include "rule_check.h"

#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "runtime/call.h"
#include "runtime/catalog.h"
#include "runtime/compare.h"
#include "runtime/interpret.h"

#include <torch/torch.h>

#include <fmt/format.h>
#include <sstream>

namespace graphopt::passes {
namespace {

struct OperandSpec {
  std::string type;
  int64_t below = 0; // of integers; 0: a few around zero
};

std::vector<OperandSpec> specsOf(std::string_view text) {
  std::vector<OperandSpec> specs;
  while (!text.empty()) {
    const size_t bar = std::min(text.find(" | "), text.size());
    std::string part(text.substr(0, bar));
    text.remove_prefix(std::min(bar + 3, text.size()));
    OperandSpec spec{part};
    if (const size_t less = part.find(" < "); less != std::string::npos) {
      spec.type = part.substr(0, less);
      spec.below = std::stoll(part.substr(less + 3));
    }
    specs.push_back(spec);
  }
  return specs;
}

std::string nameOf(size_t i) { return std::string(1, static_cast<char>('a' + i)); }

/// The op without results: their types are not known yet.
ir::Graph graphOf(const RuleCase &c, const std::vector<OperandSpec> &specs) {
  std::string text = "graph @g version=1 stage=lowered device=cpu {\n";
  for (size_t i = 0; i < specs.size(); ++i)
    text += fmt::format("  input %{}: {}\n", nameOf(i), specs[i].type);
  return ir::parseGraph(text + "  " + c.call + "\n  return\n}\n");
}

std::vector<int64_t> numbers(const std::vector<ir::Dim> &dims) {
  std::vector<int64_t> values;
  for (const ir::Dim &dim : dims)
    values.push_back(dim.value());
  return values;
}

/// Numbers for a whole storage, under the type's strides.
at::Tensor numbersFor(ir::DType dtype, int64_t count, int64_t below, const RuleCase &c) {
  if (ir::isFloating(dtype) || ir::isComplex(dtype))
    return (at::rand({count}, at::kDouble) * (c.hi - c.lo) + c.lo).to(dtype);
  if (dtype == at::kBool)
    return at::randint(0, 2, {count}).to(dtype);
  return (below > 0 ? at::randint(0, below, {count}) : at::randint(dtype == at::kByte ? 1 : -3, 5, {count}))
      .to(dtype);
}

at::Tensor makeTensor(const ir::Type &type, int64_t below, const RuleCase &c) {
  const std::vector<int64_t> sizes = numbers(type.sizes), strides = numbers(type.stridesOrContiguous());
  int64_t count = 1;
  for (size_t i = 0; i < sizes.size(); ++i)
    count += std::max<int64_t>(sizes[i] - 1, 0) * strides[i];
  at::Tensor tensor = numbersFor(type.dtype, count, below, c).as_strided(sizes, strides);
  if (type.wrapped)
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

ir::Type typeOf(const at::Tensor &tensor) {
  auto dims = [](at::IntArrayRef values) { return std::vector<ir::Dim>(values.begin(), values.end()); };
  ir::Type type = ir::Type::tensor(tensor.scalar_type(), dims(tensor.sizes()));
  type.setStrides(dims(tensor.strides()));
  return type;
}

/// Runs the op to learn the types of its results, and makes the graph return them.
std::vector<at::Tensor> runOperator(ir::Graph &graph, ir::Op &op, const runtime::Environment &environment) {
  const runtime::Call call = runtime::matchCall(op);
  const runtime::SymValues noSyms;
  auto lookUp = [&](const ir::Value &value) { return c10::IValue(environment.at(value.name)); };
  torch::jit::Stack stack = runtime::stackFor(call, {lookUp, noSyms});
  call.op->handle.callBoxed(stack);
  std::vector<at::Tensor> results;
  for (const c10::IValue &value : stack)
    if (value.isTensorList())
      for (const at::Tensor &item : value.toTensorVector())
        results.push_back(item);
    else if (value.isTensor() && value.toTensor().defined())
      results.push_back(value.toTensor());
  std::vector<ir::Operand> returned;
  for (const at::Tensor &result : results)
    returned.push_back(ir::Operand::of(graph.addResult(&op, "r", typeOf(result))));
  graph.returnOp()->setOperands(returned);
  return results;
}

std::string compareOne(const at::Tensor &oracle, const at::Tensor &eager, const at::Tensor &actual) {
  if (actual.scalar_type() != eager.scalar_type() || actual.sizes() != eager.sizes())
    return fmt::format("gives {} of {} dims, expected {}", toString(typeOf(actual)), actual.dim(),
                       toString(typeOf(eager)));
  if (actual.strides() != eager.strides())
    return fmt::format("has the layout {}, expected {}", toString(typeOf(actual)), toString(typeOf(eager)));
  if (!at::isFloatingType(eager.scalar_type()) && !at::isComplexType(eager.scalar_type()))
    return at::equal(eager, actual) ? "" : "gives other numbers";
  const runtime::OracleVerdict verdict = runtime::compareWithOracle(oracle, eager, actual);
  // Of a mean over so few elements nothing follows but the order of magnitude.
  if (verdict.pass || (verdict.reason.starts_with("mean") && verdict.meanError <= 2 * verdict.meanEager))
    return "";
  std::ostringstream shown;
  if (eager.numel() <= 16)
    shown << "\n" << eager << "\nagainst\n" << actual;
  return verdict.reason + shown.str();
}

/// The graph with the rule's prims in place of the op, or the reason why the rule does not fit.
std::string replaceByPrims(const CoreRule &rule, ir::Graph &graph) {
  ir::Op *op = *graph.body().ops().begin();
  const auto outcome = applyCoreRule(rule, *op, graph);
  if (const auto *reason = std::get_if<std::string>(&outcome))
    return "the rule does not fit: " + *reason;
  const auto &values = std::get<std::vector<ir::Value *>>(outcome);
  for (size_t i = 0; i < values.size(); ++i)
    graph.replaceAllUses(op->result(i), values[i]);
  graph.erase(op);
  graph.stage = ir::Stage::Core;
  ir::verifyOrThrow(graph, &runtime::dispatcherCatalog());
  return "";
}
} // namespace

std::string operatorOf(const RuleCase &c) {
  const std::string_view call = c.call;
  return std::string(call.substr(0, call.find('(')));
}

std::string checkRule(const CoreRule &rule, const RuleCase &c) {
  at::manual_seed(1);
  const std::vector<OperandSpec> specs = specsOf(c.operands);
  ir::Graph graph = graphOf(c, specs);
  runtime::Environment environment;
  for (size_t i = 0; i < specs.size(); ++i)
    environment[nameOf(i)] = makeTensor(graph.find(nameOf(i))->type, specs[i].below, c);
  const std::vector<at::Tensor> eager = runOperator(graph, **graph.body().ops().begin(), environment);
  const std::vector<at::Tensor> oracle = runtime::interpret(graph, environment, {.fp64 = true});
  ir::Graph core = graph.clone();
  if (const std::string reason = replaceByPrims(rule, core); !reason.empty())
    return reason;
  const std::vector<at::Tensor> actual = runtime::interpret(core, environment);
  for (size_t i = 0; i < eager.size(); ++i)
    if (const std::string reason = compareOne(oracle[i], eager[i], actual[i]); !reason.empty())
      return fmt::format("result {} {}\n{}", i, reason, ir::print(core));
  return "";
}

} // namespace graphopt::passes
