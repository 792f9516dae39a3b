// The same Variant that answers compiled calls, so that what the commands check is what users get.
#include "tools/session.h"

#include "ir/effects.h"
#include "runtime/catalog.h"

#include <graphopt/error.h>

#include <c10/core/GradMode.h>
#include <fmt/format.h>

namespace graphopt::tools {

std::string borderReason(const capture::Capture &recording) {
  const std::vector<BorderInfo> borders = driver::bordersOf(recording.graph);
  if (borders.empty())
    return "";
  const BorderInfo &first = borders.front();
  return fmt::format(
      "the host reads data in the middle of the program: '{}' at \"{}\", operator {} ({} in all)",
      first.reason, first.module, first.sequence, borders.size());
}

bool hasRandomOperators(const ir::Graph &graph) {
  bool random = false;
  ir::walk(graph.body(),
           [&](ir::Op &op) { random |= ir::effectsOf(op, &runtime::dispatcherCatalog()).random; });
  return random;
}

runtime::Environment environmentOf(const capture::Capture &recording, const Instance &instance) {
  runtime::Environment environment;
  for (const capture::Bound &bound : recording.bound)
    if (bound.value)
      environment[bound.value->name] = bound.get();
  const std::vector<at::Tensor> leaves = instance.argumentTensors();
  for (size_t i = 0; i < leaves.size(); ++i)
    if (recording.inputs[i])
      environment[recording.inputs[i]->name] = leaves[i];
  return environment;
}

Session::Session(Instance instance, const ModelFlags &model, const PassFlags &passes)
    : instance_(std::move(instance)) {
  for (const at::Tensor &tensor : instance_.argumentTensors())
    save(tensor);
  for (const capture::NamedTensor &state : instance_.state())
    save(state.tensor);
  capture::Capture recording = instance_.record(model.seed());
  if (const std::string reason = borderReason(recording); !reason.empty())
    userError(fmt::format("'{}' cannot run as one plan: {}", model.path(), reason));
  if (!model.isText())
    recorded_ = recording.result;
  variant_ = std::make_unique<driver::Variant>(std::move(recording), std::vector<detail::WatchedModule>());
  passes::Pipeline pipeline = passes.pipeline();
  const auto reports =
      variant_->compile(pipeline.empty() ? passes::parsePipeline(driver::kPipeline) : pipeline,
                        passes.managerOptions(&runtime::dispatcherCatalog()));
  passes.report(reports);
}

void Session::save(const at::Tensor &tensor) {
  if (tensor.defined() && tensor.layout() == c10::kStrided && !tensor.is_inference())
    saved_.push_back({tensor, tensor.detach().clone(), tensor._version()});
}

/// Only what was written: copying into an expanded tensor is an error, and such a tensor cannot have been
/// written.
void Session::undoRecording() {
  const c10::AutoGradMode noGrad(false);
  for (const Saved &saved : saved_)
    if (saved.tensor._version() != saved.version)
      saved.tensor.detach().copy_(saved.copy);
}

bool Session::wrote(const at::Tensor &tensor) const {
  for (const Saved &saved : saved_)
    if (saved.tensor.is_same(tensor))
      return tensor._version() != saved.version;
  return false;
}

c10::IValue Session::run(uint64_t seed) const {
  seedGenerators(seed);
  return variant_->run(instance_.args);
}

runtime::Environment Session::environment() const { return environmentOf(variant_->capture(), instance_); }

} // namespace graphopt::tools
