// Which module an operator belongs to.
#pragma once
#include "capture/program.h"
#include "capture/trace.h"

#include <unordered_map>

namespace graphopt::capture {

/// Asked once for each call. Sources, best first: open graphopt::Scope guards, the program itself
/// (TorchScript), the parameters that the operator reads; failing all, the scope before, marked as guessed.
class ScopeTracker {
public:
  ScopeTracker(Trace &trace, const Program &program, bool guess)
      : trace_(trace), program_(program), guess_(guess) {}
  /// The index into Trace::scopes for a call on these operands.
  int32_t scopeOf(const std::vector<TraceOperand> &operands);

private:
  int32_t intern(std::string_view path, bool isGuessed);
  int32_t guessFrom(const std::vector<TraceOperand> &operands);
  void collectModules(const std::vector<TraceOperand> &operands);

  Trace &trace_;
  const Program &program_;
  bool guess_;
  int32_t last_ = 0;
  std::vector<std::string_view> modules_; // module paths of the parameters an operator reads
  std::unordered_map<std::string, int32_t> known_, knownGuessed_;
};

} // namespace graphopt::capture
