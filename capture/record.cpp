// Recording a call: bind arguments and state to values, run the program under interception, build the graph.
#include "capture/argument_names.h"
#include "capture/capture.h"
#include "capture/dry_run.h"
#include "capture/graph_builder.h"
#include "capture/recorder.h"

#include <graphopt/error.h>

namespace graphopt::capture {
namespace {

using Kind = ir::Value::Kind;

/// The device most of the graph is on: the first accelerator among arguments and state.
c10::Device deviceOf(const std::vector<at::Tensor> &leaves, const std::vector<NamedTensor> &state) {
  for (const at::Tensor &leaf : leaves)
    if (!leaf.device().is_cpu())
      return leaf.device();
  for (const NamedTensor &named : state)
    if (named.tensor.defined() && !named.tensor.device().is_cpu())
      return named.tensor.device();
  return c10::kCPU;
}

void declareArguments(Recorded &recorded, ValueTable &table, const std::vector<at::Tensor> &leaves) {
  std::vector<std::string> names = leafNames(recorded.arguments, recorded.argumentNames);
  for (size_t i = 0; i < leaves.size(); ++i)
    recorded.inputs.push_back(table.declare(Kind::Input, names[i], leaves[i]));
}

void declareState(ValueTable &table, const std::vector<NamedTensor> &state) {
  for (const NamedTensor &named : state)
    if (named.tensor.defined())
      table.declare(named.isParameter ? Kind::Param : Kind::Buffer, named.name, named.tensor);
}

bool holdsObject(const Structure &structure) {
  if (structure.kind == Structure::Kind::Constant)
    return structure.constant.isObject() || structure.constant.isCapsule() || structure.constant.isPyObject();
  return std::any_of(structure.children.begin(), structure.children.end(), holdsObject);
}

c10::IValue runIntercepted(Program &program, std::vector<c10::IValue> args, Recorder &recorder,
                           std::optional<c10::Device> dryOn) {
  Interception interception(recorder);
  std::optional<DryRun> dry;
  if (dryOn)
    dry.emplace(*dryOn);
  recorder.watch(&interception.strays());
  c10::IValue result = program.call(std::move(args));
  recorder.finish();
  return result;
}

} // namespace

at::Tensor Bound::get() const { return outside ? at::Tensor(weak->lock()) : tensor; }

bool isRecording() { return isIntercepting(); }

Capture record(Program &program, std::vector<c10::IValue> args, const CaptureOptions &options) {
  if (std::optional<std::string> reason = selfTest())
    userError(fmt::format("this process cannot record: {}", *reason));
  if (isIntercepting())
    userError("record() was called inside a call that is being recorded: run the inner program as it is");
  Recorded recorded;
  std::vector<at::Tensor> leaves;
  for (const c10::IValue &arg : args)
    recorded.arguments.push_back(flatten(arg, leaves));
  std::vector<NamedTensor> state = program.state();
  recorded.argumentNames = argumentNames(args.size(), program.argumentNames());
  recorded.device = deviceOf(leaves, state);
  recorded.process = processState();
  EntryState entry = entryState(recorded.device.type());

  ValueTable table(recorded.trace);
  declareArguments(recorded, table, leaves);
  declareState(table, state);
  ScopeTracker scopes(recorded.trace, program, options.guessScopes);
  Recorder recorder(recorded.trace, table, scopes, recorded.device.type());
  c10::IValue result = runIntercepted(program, std::move(args), recorder,
                                      options.dry ? std::optional(recorded.device) : std::nullopt);

  std::vector<at::Tensor> results;
  recorded.output = flatten(result, results);
  for (const at::Tensor &tensor : results)
    recorded.outputs.push_back(table.lookUp(tensor));
  if (std::string remark = table.takeRemark(); !remark.empty())
    recorder.addBorder("result: " + remark);
  if (holdsObject(recorded.output))
    recorder.addBorder("result: holds an object whose tensors cannot be seen");
  Capture capture = buildCapture(recorded, options);
  addGuards(capture, recorded, entry, leaves);
  if (!options.dry)
    capture.result = std::move(result);
  return capture;
}

} // namespace graphopt::capture
