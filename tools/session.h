// Session: a model that was recorded, transformed and planned as the driver does it, with the steps in reach
// of commands.
#pragma once
#include "driver/variant.h"
#include "runtime/interpret.h"
#include "tools/model.h"
#include "tools/pass_flags.h"

namespace graphopt::tools {

/// Why the plan of a recording cannot stand for its program: a host read in the middle. Empty when it can.
std::string borderReason(const capture::Capture &recording);

/// Whether a run of the graph depends on the state of a generator.
bool hasRandomOperators(const ir::Graph &graph);

/// Tensors of a recording's declarations as they are now, by name.
runtime::Environment environmentOf(const capture::Capture &recording, const Instance &instance);

class Session {
public:
  /// Records one call of the instance (which runs it for real) and compiles it. Throws a user error when
  /// there is a border.
  Session(Instance instance, const ModelFlags &model, const PassFlags &passes);
  /// Gives arguments, parameters and buffers the values they had before the recorded call, so that run() is a
  /// first call.
  void undoRecording();

  /// What the recorded call returned; nothing for a .gir text, whose recording runs nothing.
  const std::optional<c10::IValue> &recorded() const { return recorded_; }
  const Instance &instance() const { return instance_; }
  const driver::Variant &variant() const { return *variant_; }
  /// Whether the tensor, an argument's or the state's, was written since before the recorded call.
  bool wrote(const at::Tensor &tensor) const;
  /// Runs the plan from a fixed state of the random generators.
  c10::IValue run(uint64_t seed) const;
  /// Tensors of the graph's declarations as they are now, by name.
  runtime::Environment environment() const;

private:
  struct Saved {
    at::Tensor tensor, copy;
    int64_t version;
  };
  void save(const at::Tensor &tensor);
  Instance instance_;
  std::vector<Saved> saved_; // as before the recorded call
  std::optional<c10::IValue> recorded_;
  std::unique_ptr<driver::Variant> variant_;
};

} // namespace graphopt::tools
