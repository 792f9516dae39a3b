// Who hears, on this thread, of questions about tensors that are no operators.
#pragma once
#include <c10/core/TensorImpl.h>

namespace graphopt::capture {

class HookListener {
public:
  /// The program asks about the tensor's history, version, base or data.
  virtual void onQuestion(const c10::TensorImpl &impl) = 0;
  /// The program is about to do what any pending operator may matter to: backward, set_data, requires_grad_.
  virtual void onWholeState() = 0;

protected:
  ~HookListener() = default;
};

/// What the hooks do where any pending operator may matter.
void runPendingOperators();
/// Null: nobody.
void setHookListener(HookListener *listener);

} // namespace graphopt::capture
