// A walk over the ops with a table of values. Nothing is cleverer than eager: each op is one boxed dispatcher
// call under the state its text asks for, and a value is dropped after its last use.
#include "runtime/interpret.h"

#include "graphopt/error.h"
#include "ir/alias.h"
#include "ir/effects.h"
#include "ir/op_table.h"
#include "runtime/ambient.h"
#include "runtime/call.h"
#include "runtime/content.h"
#include "runtime/device.h"
#include "runtime/prim_layout.h"
#include "runtime/returned_views.h"
#include "runtime/rng.h"
#include "runtime/vjp.h"

#include <ATen/Functions.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <unordered_set>
#include <utility>

namespace graphopt::runtime {
namespace {
using c10::IValue;
using ir::Block;
using ir::Op;
using ir::Operand;
using ir::Value;

/// Factories without a dtype make the default one, which is part of what the f64 run promotes.
class DefaultDTypeScope {
public:
  explicit DefaultDTypeScope(bool f64) : previous_(c10::get_default_dtype()) {
    if (f64)
      c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
  }
  ~DefaultDTypeScope() { c10::set_default_dtype(previous_); }
  DefaultDTypeScope(const DefaultDTypeScope &) = delete;
  DefaultDTypeScope &operator=(const DefaultDTypeScope &) = delete;

private:
  caffe2::TypeMeta previous_;
};

class Interpreter {
public:
  Interpreter(const ir::Graph &graph, const InterpretOptions &options)
      : graph_(graph), options_(options), syms_(options.syms), defaultDType_(options.fp64),
        settings_(settingsOf(graph)), ambient_(requireDevice(graph.device).type()) {
    for (const ir::OpState &state : graph.states) {
      states_.push_back(ambientOf(graph, state));
      if (options.fp64)
        states_.back().autocast = false;
    }
  }

  std::vector<at::Tensor> run(const Environment &environment) {
    bind(environment);
    if (!graph_.returnOp())
      userError("the graph has no return");
    if (graph_.stage != ir::Stage::Captured || graph_.form == ir::Form::Functional)
      returned_ = planReturns(graph_);
    findLastUses();
    runBlock(graph_.body());
    return std::move(outputs_);
  }

private:
  void bind(const Environment &environment) {
    Bindings bindings = bindDeclarations(graph_, environment, options_.loadConstant, syms_);
    if (options_.fp64)
      bindings = promoted(bindings);
    for (auto &[value, tensor] : bindings)
      values_[value] = std::move(tensor);
  }

  /// A use inside a body counts at the op that owns the body; what the return needs lives to the end.
  void findLastUses() {
    std::unordered_set<const Value *> seen;
    for (const Value *value : returned_.needed)
      seen.insert(value);
    std::vector<Op *> ops = graph_.body().ops();
    for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
      auto note = [&](const Operand &operand) {
        if (operand.value->isResult() && seen.insert(operand.value).second)
          lastUses_[*op].push_back(operand.value);
      };
      (*op)->forEachValue(note);
      if ((*op)->body())
        ir::walk(*(*op)->body(), [&](Op &inner) { inner.forEachValue(note); });
      for (const Value *result : (*op)->results())
        if (seen.insert(result).second)
          lastUses_[*op].push_back(result);
    }
  }

  void runBlock(const Block &block) {
    for (const auto &op : block) {
      runOp(*op);
      if (auto it = lastUses_.find(op.get()); it != lastUses_.end())
        for (const Value *value : it->second)
          values_.erase(value);
    }
  }

  void runOp(const Op &op) {
    switch (op.kind) {
    case Op::Kind::Call:
      define(op, call(op, nullptr, {}));
      return;
    case Op::Kind::Group:
    case Op::Kind::Update:
    case Op::Kind::Redraw:
      runBody(op);
      return;
    case Op::Kind::Vjp:
      runVjp(op);
      return;
    case Op::Kind::Border:
      refuseUntraced(op);
      return;
    case Op::Kind::Writeback:
      writeBack(op);
      return;
    case Op::Kind::Return:
      collectOutputs(op);
      return;
    case Op::Kind::Yield:
      return; // read by the owner
    }
  }

  /// A host read only says where the program looked; after an untraced border the graph is not the program.
  void refuseUntraced(const Op &border) const {
    if (border.name != "untraced")
      return;
    const ir::Attr *reason = border.attr("reason");
    userError(fmt::format(
        "graph @{} does not hold what the program did at border #{} ({}); run the program eagerly",
        graph_.name, border.number, reason ? reason->text() : "no reason given"));
  }

  void runBody(const Op &op) {
    const Block &body = *op.body();
    runKeepingGenerators(op);
    const Op *yield = body.terminator();
    if (!yield || yield->operands().size() != op.results().size())
      userError(fmt::format("the body of '{}' does not yield its {} results", op.name, op.results().size()));
    std::vector<IValue> results;
    for (const Operand &operand : yield->operands())
      results.push_back(lookUp(operand));
    ir::walk(body, [&](Op &inner) {
      for (const Value *value : inner.results())
        values_.erase(value);
    });
    define(op, std::move(results));
  }

  /// A block that begins with states of generators, which are afterwards as they were.
  void runKeepingGenerators(const Op &op) {
    std::vector<c10::Device> devices;
    for (const ir::Device &device : ir::redrawsOn(op))
      devices.push_back(requireDevice(device));
    std::optional<RngScope> rng;
    if (!devices.empty())
      rng.emplace(devices, op.kind == Op::Kind::Redraw ? RngScope::Others::Wait : RngScope::Others::GoOn);
    runBlock(*op.body());
  }

  /// The body runs with autograd, on leaves in the places of the values whose gradients are asked for.
  void runVjp(const Op &op) {
    const std::vector<Operand> &lists = op.body()->terminator()->operands();
    std::vector<IValue> before;
    for (const Operand &operand : lists.at(2).items)
      before.push_back(std::exchange(values_[operand.value], leafOf(lookUp(*operand.value).toTensor())));
    runKeepingGenerators(op); // the gradients draw as those of now
    std::vector<at::Tensor> gradients =
        gradientsOf(tensorsOf(lists[0]), tensorsOf(lists[1]), tensorsOf(lists[2]));
    for (size_t i = 0; i < before.size(); ++i)
      values_[lists[2].items[i].value] = std::move(before[i]);
    ir::walk(*op.body(), [&](Op &inner) {
      for (const Value *value : inner.results())
        values_.erase(value);
    });
    std::vector<IValue> results;
    for (size_t i = 0; i < gradients.size(); ++i) {
      const bool isAsItComes = isOnlyReturned(*op.result(i));
      if (!isAsItComes && !gradients[i].defined()) // zeros to those who count on it
        gradients[i] = at::zeros_like(lookUp(*lists[2].items[i].value).toTensor());
      results.emplace_back(
          isAsItComes ? gradients[i] : laidOut(gradients[i], op.result(i)->type, syms_, /*mayAlias=*/false));
    }
    define(op, std::move(results));
  }

  /// Nobody reads it who was made for a layout.
  static bool isOnlyReturned(const Value &value) {
    return std::ranges::all_of(value.users(), [](const Op *user) { return user->kind == Op::Kind::Return; });
  }

  std::vector<at::Tensor> tensorsOf(const Operand &list) const {
    std::vector<at::Tensor> tensors;
    for (const Operand &operand : list.items)
      tensors.push_back(lookUp(operand).toTensor());
    return tensors;
  }

  void define(const Op &op, std::vector<IValue> results) {
    for (size_t i = 0; i < results.size(); ++i) {
      const Value *value = op.results()[i];
      if (!graph_.syms.empty() && results[i].isTensor() && results[i].toTensor().defined())
        bindSyms(value->type, results[i].toTensor(), syms_);
      values_[value] = std::move(results[i]);
    }
  }

  // ---- one call

  /// Runs a call; `from`, when given, is taken to be `instead`: how a view is made again on another base.
  std::vector<IValue> call(const Op &op, const Value *from, const at::Tensor &instead) {
    Call matched = matchCall(op);
    ambient_.enter(states_.at(op.state));
    auto lookUpHere = [&](const Value &value) { return &value == from ? IValue(instead) : lookUp(value); };
    torch::jit::Stack stack = stackFor(matched, {lookUpHere, syms_, options_.fp64});
    invoke(*matched.op, stack);
    std::vector<IValue> results = takeResults(*matched.op, stack, op.results().size());
    if (ir::findPrim(op.name))
      for (size_t i = 0; i < results.size(); ++i)
        results[i] = laidOut(results[i].toTensor(), op.result(i)->type, syms_, matched.copyResult);
    return results;
  }

  void invoke(const Operator &op, torch::jit::Stack &stack) {
    if (!options_.fp64)
      return op.handle.callBoxed(stack);
    try {
      op.handle.callBoxed(stack);
    } catch (const c10::Error &error) {
      userError(fmt::format("'{}' op cannot run in f64: {}", op.info.name, error.what_without_backtrace()));
    }
  }

  const IValue &lookUp(const Value &value) const {
    auto it = values_.find(&value);
    GO_ASSERT(it != values_.end(), "value used before its definition: " + value.name);
    return it->second;
  }

  /// Of a yield or return operand; undefined for none.
  IValue lookUp(const Operand &operand) const {
    return operand.kind == Operand::Kind::Value ? lookUp(*operand.value) : IValue(at::Tensor());
  }

  // ---- the end of a graph

  void writeBack(const Op &op) {
    copySources();
    at::Tensor target = lookUp(op.operands().at(0)).toTensor();
    const Value *source = op.operands().at(1).value;
    auto copy = copies_.find(source);
    ambient_.enter(Ambient{}); // above autograd: the caller's version counters have to see the write
    commit(target, copy == copies_.end() ? asTensor(lookUp(*source)) : copy->second);
  }

  /// Before the first commit: sources that share memory with a declared value, which a commit may change.
  void copySources() {
    if (std::exchange(copied_, true))
      return;
    c10::AutoGradMode grad(false);
    for (const Value *value : returned_.copyFirst)
      copies_[value] = asTensor(lookUp(*value)).clone();
  }

  static void commit(at::Tensor &target, const at::Tensor &source) {
    c10::InferenceMode inference(target.is_inference());
    c10::AutoGradMode grad(false);
    target.copy_(source);
  }

  void collectOutputs(const Op &op) {
    for (size_t i = 0; i < op.operands().size(); ++i) {
      const Operand &operand = op.operands()[i];
      auto rebuilt = returned_.views.find(i);
      if (operand.kind == Operand::Kind::None)
        outputs_.emplace_back();
      else
        outputs_.push_back(rebuilt == returned_.views.end() ? asTensor(lookUp(operand))
                                                            : rebuild(rebuilt->second));
    }
  }

  at::Tensor rebuild(const ReturnedView &view) {
    const Value *current = view.base;
    at::Tensor tensor = asTensor(lookUp(*view.root));
    for (const ir::ViewStep &step : view.chain) {
      tensor = call(*step.op, current, tensor).at(step.result).toTensor();
      current = step.op->result(step.result);
    }
    return tensor;
  }

  const ir::Graph &graph_;
  const InterpretOptions &options_;
  SymValues syms_;
  DefaultDTypeScope defaultDType_;
  SettingsScope settings_;
  AmbientScope ambient_;
  std::vector<Ambient> states_;
  std::unordered_map<const Value *, IValue> values_;
  std::unordered_map<const Op *, std::vector<const Value *>> lastUses_;
  std::unordered_map<const Value *, at::Tensor> copies_;
  bool copied_ = false;
  Returns returned_;
  std::vector<at::Tensor> outputs_;
};

} // namespace

std::vector<at::Tensor> interpret(const ir::Graph &graph, const Environment &environment,
                                  const InterpretOptions &options) {
  return Interpreter(graph, options).run(environment);
}

} // namespace graphopt::runtime
