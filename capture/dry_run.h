// A program run for its operators alone: no kernel that costs anything runs, nothing of the user's changes.
#pragma once
#include "capture/handler.h"
#include "capture/low_handler.h"
#include "capture/operator_facts.h"
#include "capture/random_watch.h"

#include <c10/core/Storage.h>

#include <optional>
#include <unordered_map>
#include <vector>

namespace graphopt::capture {

/// While it lives, operators of the thread give results of the right sizes, strides and dtypes without
/// contents (bare_run.h). What follows from sizes, constants and small tensors is computed, so that host code
/// may decide by it; whoever asks for contents that are not there, through an operator or through a pointer,
/// gets a c10::Error that says so. Tensors that are there already keep their contents, and generators their
/// states.
class DryRun final : public OperatorSink {
public:
  explicit DryRun(c10::Device device);
  ~DryRun();
  DryRun(const DryRun &) = delete;
  DryRun &operator=(const DryRun &) = delete;
  void onCall(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) override;

private:
  enum class Contents : uint8_t { Own, Missing }; ///< made here and true, or meaningless
  struct Known {
    explicit Known(const c10::Storage &storage) : held(storage.getWeakStorageImpl()) {}
    c10::weak_intrusive_ptr<c10::StorageImpl> held; // so that its address stays its own
    Contents contents = Contents::Own;
    bool isOurs = true; ///< made in this run
  };
  struct Operand {
    at::Tensor tensor;
    bool isWritten = false;
  };
  std::vector<Operand> operandsOf(const OperatorFacts &facts, const torch::jit::Stack &stack) const;
  bool isMissing(const at::Tensor &tensor) const;
  bool isOwn(const at::Tensor &tensor) const;
  bool isViewInPlace(const OperatorFacts &facts, const std::vector<Operand> &operands) const;
  bool isWorthRunning(const OperatorFacts &facts, const std::vector<Operand> &operands,
                      const torch::jit::Stack &stack) const;
  void runWithout(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                  torch::jit::Stack &stack);
  void note(const std::vector<Operand> &operands, const OperatorFacts &facts, const torch::jit::Stack &stack,
            Contents contents);
  void noteLost(const at::Tensor &tensor);
  void noteResult(const at::Tensor &tensor, const std::vector<Operand> &operands, Contents contents);

  GeneratorStates generators_;
  std::unordered_map<const c10::StorageImpl *, Known> known_;
  std::optional<LowInterception> interception_; // the last member: it ends first
};

} // namespace graphopt::capture
