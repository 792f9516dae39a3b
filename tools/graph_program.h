// A .gir text as a program: calls interpret it, and it is its own recording.
#pragma once
#include "capture/capture.h"
#include "runtime/bind.h"
#include "tools/input_spec.h"

#include <string>
#include <vector>

namespace graphopt::tools {

class GraphProgram final : public capture::Program {
public:
  struct Options {
    InputContext input; ///< device, seed and syms of what the text declares without contents
    std::string constsDir;
  };
  /// Reads and verifies the one graph of the file. Throws a user error; what is wrong with the text is
  /// printed to standard error.
  GraphProgram(const std::string &path, const Options &options);

  std::string name() const override { return graph_.name; }
  /// Interprets the graph: one result alone, several as a tuple.
  c10::IValue call(std::vector<c10::IValue> args) override;
  std::vector<capture::NamedTensor> state() const override;

  /// Random tensors for the graph's inputs.
  std::vector<c10::IValue> randomArguments() const;
  /// The text as a recording with these arguments.
  capture::Capture capture(const std::vector<c10::IValue> &args) const;

private:
  at::Tensor makeState(const ir::Value &value, size_t position, const Options &options) const;
  std::vector<at::Tensor> inputTensors(const std::vector<c10::IValue> &args) const;
  const Options options_;
  ir::Graph graph_;
  std::vector<const ir::Value *> inputs_;
  std::vector<std::pair<const ir::Value *, at::Tensor>> declared_; // all that is no input, in order
};

} // namespace graphopt::tools
