// Writes down the operators that run below autograd, forward and then backward, as two graphs over one
// numbering of values (ir/pieces.h).
#pragma once
#include "capture/handler.h"
#include "capture/operator_facts.h"
#include "ir/graph.h"

#include <ATen/core/Tensor.h>

#include <map>
#include <stdexcept>
#include <unordered_map>
#include <vector>

namespace graphopt::capture {

/// An operator cannot be taken apart, and why. A std::exception, since it passes through autograd's engine.
struct Opaque : std::runtime_error {
  using runtime_error::runtime_error;
};

class PieceRecorder final : public OperatorSink {
public:
  /// `isBare`: operators run without kernels where that can be (bare_run.h).
  PieceRecorder(const ir::Device &device, bool isBare);

  /// An input of the forward graph: the next value.
  void addInput(const at::Tensor &tensor);
  /// The forward graph ends: it returns the results, then every value that is no input.
  ir::Graph finishForward(const std::vector<at::Tensor> &results);

  /// From here on operators belong to the backward graph. Forward values are its inputs where it reads them.
  void beginBackward();
  /// A further input of the backward graph, by name.
  void addNamed(const at::Tensor &tensor, const std::string &name);
  ir::Graph finishBackward(const std::vector<at::Tensor> &gradients);

  void onCall(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) override;

  /// Operators whose kernels ran though none should: nothing else tells what they give. Views excepted.
  const std::vector<std::string> &kernels() const { return kernels_; }

private:
  struct Entry {
    at::Tensor tensor; // held: addresses are names here
    std::string name;  // of an input of the graph under way that is not numbered
    bool isConstant = false;
  };
  using Geometry = std::vector<int64_t>;
  static Geometry geometryOf(const at::Tensor &tensor);
  int add(const at::Tensor &tensor);
  int idOf(const at::Tensor &tensor);
  std::optional<int> find(const at::Tensor &tensor);
  ir::Value *valueOf(const at::Tensor &tensor);
  ir::Value *declare(int id);
  void declareConstant(int id);
  ir::Type typeOf(const at::Tensor &tensor) const;

  void checkMayBeTaken(const OperatorFacts &facts, const torch::jit::Stack &stack) const;
  ir::Operand operandOf(const at::Tensor &tensor, bool isWritten);
  ir::Operand operandOf(const c10::IValue &value, const ArgumentFacts &argument);
  ir::Op *appendCall(const OperatorFacts &facts, const torch::jit::Stack &stack);
  void run(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
           torch::jit::Stack *stack);
  void takeResults(ir::Op *op, const OperatorFacts &facts, const torch::jit::Stack &stack);
  void takeResult(ir::Op *op, const at::Tensor &tensor);
  void rebind(ir::Op *op, const OperatorFacts &facts, const at::Tensor &tensor);
  void markAliases(ir::Op *op, const at::Tensor &result);

  std::vector<std::string> kernels_;
  const ir::Device device_;
  const bool isBare_;
  ir::Graph graph_;
  std::vector<Entry> entries_; // by number
  std::unordered_map<const c10::TensorImpl *, int> byImpl_;
  std::map<Geometry, int> byGeometry_;
  std::vector<ir::Value *> values_;  // of the graph under way, by number
  std::vector<at::Tensor> operands_; // of the call under way, in order of forEachValue
  size_t inputs_ = 0, forwardValues_ = 0;
  bool isBackward_ = false;
};

} // namespace graphopt::capture
