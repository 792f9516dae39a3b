// One audited call of a trusted callable: the program runs, checked operator by operator, and the plan that
// would have answered runs on copies of what it reads. Both have to agree.
#pragma once
#include "capture/random_watch.h"
#include "driver/live_copies.h"
#include "driver/variant.h"

namespace graphopt::driver {

class Audit {
public:
  /// Before the program runs. Throws when the plan's inputs cannot be copied.
  Audit(const Variant &variant, const std::vector<c10::IValue> &args);
  /// After it: where the plan's results, or what it writes, differ from the program's; empty when nowhere.
  std::string difference(const c10::IValue &result);
  /// After it threw: empty when the plan throws too.
  std::string differenceFromError(const std::string &error);

private:
  c10::IValue runPlan() const;
  std::string compareResults(const c10::IValue &want, const c10::IValue &got) const;

  const Variant &variant_;
  const std::vector<at::Tensor> inputs_;
  LiveCopies copies_;
  std::vector<c10::Device> devices_;
  std::optional<capture::GeneratorStates> before_; // where the plan draws: other threads may draw meanwhile
};

} // namespace graphopt::driver
