// Turns intercepted calls into rows of the trace.
#pragma once
#include "capture/handler.h"
#include "capture/scope.h"
#include "capture/value_table.h"

namespace graphopt::capture {

class Recorder final : public OperatorSink {
public:
  /// `device`: whose autocast state is written down.
  Recorder(Trace &trace, ValueTable &table, ScopeTracker &scopes, c10::DeviceType device)
      : trace_(trace), table_(table), scopes_(scopes), device_(device) {}
  void onCall(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) override;
  /// Must be set while the program runs; asked after each call.
  void watch(Strays *strays) { strays_ = strays; }
  /// After the program's last operator.
  void finish() { noteStrays(); }
  /// A point past which the graph must not be trusted, for a reason that is no operator's.
  void addBorder(std::string reason);

private:
  /// One tensor among the operands of the call being recorded.
  struct Seen {
    ValueId value;
    const c10::TensorImpl *impl; // an address of a tensor the table knows, so unique
    TraceOperand *operand;
    bool isWritten;
    bool isAliased;          // by the schema
    bool wasAliased = false; // a result shares its memory
    at::Tensor kept;         // of memory not yet written: its contents may have to be read
  };
  TraceOperand tensorOperand(const c10::IValue &value, const ArgumentFacts &argument);
  TraceOperand listOperand(const c10::IValue &value, const ArgumentFacts &argument);
  void takeArguments(TraceCall &call, const torch::jit::Stack &stack);
  void linkOperands(std::vector<TraceOperand> &operands, size_t &next);
  void takeResult(TraceCall &call, const c10::IValue &value);
  void takeTensor(TraceCall &call, const at::Tensor &tensor);
  void takePlain(TraceCall &call, ir::Type::Kind kind);
  void noteSharedMemory(TraceCall &call, const at::Tensor &tensor);
  Seen *aliased(const at::Tensor &tensor);
  void noteWrites(TraceCall &call);
  void noteReads();
  void noteStrays();

  Trace &trace_;
  ValueTable &table_;
  ScopeTracker &scopes_;
  c10::DeviceType device_;
  Strays *strays_ = nullptr;
  std::vector<Seen> seen_; // of the call being recorded
  std::vector<ir::NamedAttr> attrs_;
};

} // namespace graphopt::capture
