// Values of a text that nobody supplies are made once, from the seed, so that calls see one state, as with a
// module.
#include "tools/graph_program.h"

#include "tools/const_files.h"
#include "tools/files.h"

#include "ir/parse.h"
#include "ir/verify.h"
#include "runtime/catalog.h"
#include "runtime/interpret.h"

#include <graphopt/error.h>

#include <fmt/format.h>

#include <iostream>

namespace graphopt::tools {
namespace {

ir::Graph readGraph(const std::string &path) {
  ir::Diagnostics diagnostics(path == "-" ? "<stdin>" : path, readText(path));
  std::optional<std::vector<ir::Graph>> graphs = ir::parseGraphs(diagnostics);
  if (graphs)
    for (const ir::Graph &graph : *graphs)
      ir::verify(graph, diagnostics, &runtime::dispatcherCatalog());
  std::cerr << diagnostics.render();
  if (!graphs || diagnostics.hasErrors())
    userError(fmt::format("'{}' is no valid graph", path));
  if (graphs->size() != 1)
    userError(fmt::format("'{}' has {} graphs, expected one", path, graphs->size()));
  return std::move(graphs->front());
}

capture::Bound boundTo(ir::Value *value, const at::Tensor &tensor) {
  capture::Bound bound;
  bound.value = value;
  bound.tensor = tensor;
  return bound;
}

} // namespace

GraphProgram::GraphProgram(const std::string &path, const Options &options)
    : options_{options.input, constsDirOf(path, options.constsDir)}, graph_(readGraph(path)) {
  for (const ir::Value *value : graph_.declarations()) {
    if (value->kind == ir::Value::Kind::Input)
      inputs_.push_back(value);
    else
      declared_.emplace_back(value, makeState(*value, declared_.size(), options_));
  }
}

at::Tensor GraphProgram::makeState(const ir::Value &value, size_t position, const Options &options) const {
  const runtime::SymValues &syms = options.input.syms;
  if (!value.content.isNone())
    return runtime::tensorFromContent(value.type, value.content, syms);
  if (!value.contentHash.empty())
    return readConst(value, options.constsDir).to(options.input.device);
  return runtime::makeInput(value.type, {.seed = options.input.seed + 1000 + position}, syms)
      .to(options.input.device);
}

std::vector<c10::IValue> GraphProgram::randomArguments() const {
  std::vector<c10::IValue> args;
  for (const ir::Value *value : inputs_)
    args.emplace_back(
        runtime::makeInput(value->type, {.seed = options_.input.seed + args.size()}, options_.input.syms)
            .to(options_.input.device));
  return args;
}

std::vector<at::Tensor> GraphProgram::inputTensors(const std::vector<c10::IValue> &args) const {
  std::vector<at::Tensor> leaves;
  for (const c10::IValue &arg : args)
    capture::flatten(arg, leaves);
  if (leaves.size() != inputs_.size())
    userError(
        fmt::format("graph '@{}' has {} inputs, {} were given", graph_.name, inputs_.size(), leaves.size()));
  return leaves;
}

c10::IValue GraphProgram::call(std::vector<c10::IValue> args) {
  const std::vector<at::Tensor> leaves = inputTensors(args);
  runtime::Environment environment;
  for (size_t i = 0; i < leaves.size(); ++i)
    environment[inputs_[i]->name] = leaves[i];
  for (const auto &[value, tensor] : declared_)
    environment[value->name] = tensor;
  runtime::InterpretOptions interpreting;
  interpreting.syms = options_.input.syms;
  const std::vector<at::Tensor> results = runtime::interpret(graph_, environment, interpreting);
  if (results.size() == 1)
    return results.front();
  return c10::ivalue::Tuple::create(std::vector<c10::IValue>(results.begin(), results.end()));
}

std::vector<capture::NamedTensor> GraphProgram::state() const {
  std::vector<capture::NamedTensor> state;
  for (const auto &[value, tensor] : declared_)
    if (value->kind != ir::Value::Kind::Const && value->kind != ir::Value::Kind::HostVal)
      state.push_back({value->name, tensor, value->kind == ir::Value::Kind::Param});
  return state;
}

capture::Capture GraphProgram::capture(const std::vector<c10::IValue> &args) const {
  capture::Capture capture;
  capture.graph = graph_.clone();
  std::vector<at::Tensor> leaves;
  for (const c10::IValue &arg : args)
    capture.arguments.push_back(capture::flatten(arg, leaves));
  for (const ir::Value *input : inputs_)
    capture.inputs.push_back(capture.graph.find(input->name));
  for (const auto &[value, tensor] : declared_)
    capture.bound.push_back(boundTo(capture.graph.find(value->name), tensor));
  const ir::Op *ret = capture.graph.returnOp();
  const size_t results = ret ? ret->operands().size() : 0;
  capture::Structure leaf;
  leaf.kind = capture::Structure::Kind::Tensor;
  capture.output = leaf;
  if (results != 1) {
    capture.output.kind = capture::Structure::Kind::Tuple;
    for (leaf.leaf = 0; leaf.leaf < results; ++leaf.leaf)
      capture.output.children.push_back(leaf);
  }
  ir::walk(capture.graph.body(), [&](ir::Op &op) {
    capture.stats.operators += op.kind == ir::Op::Kind::Call;
    capture.stats.borders += op.kind == ir::Op::Kind::Border;
  });
  return capture;
}

} // namespace graphopt::tools
