// The casts of weights that rows take under autocast, fetched as the rows come.
#include "capture/frame.h"
#include "capture/kept_casts.h"

#include <algorithm>

namespace graphopt::capture {

/// Now, since the region may have ended when the rows run. False: a cast has a history where the recorded one
/// had none, or the other way round, and so have the results.
bool Frame::takeCasts(const RowInfo &info) {
  RunningScope running(isRunning_);
  const size_t before = casts_.size();
  for (const CastWeight &expected : info.weights) {
    if (!expected.isKept)
      continue;
    const at::Tensor &weight = active_->tensors[expected.value];
    TakenCast &taken = casts_.emplace_back(TakenCast{matched_, expected.value, {}, false});
    if (!isCastKept(weight) || isPending(*weight.unsafeGetTensorImpl()))
      continue;
    const bool isNew = !keepCastForLater(weight, taken.cast);
    taken.awaitsHistory = isNew;
    const bool hasHistory =
        taken.cast.requires_grad() || std::ranges::any_of(casts_, [&](const TakenCast &other) {
          return other.awaitsHistory && other.cast.is_same(taken.cast);
        });
    if (hasHistory != expected.hasHistory) {
      dropCasts(before);
      return false;
    }
  }
  return true;
}

/// Those whose rows have not run belong to the program now.
void Frame::dropCasts(size_t kept) {
  for (size_t i = kept; i < casts_.size(); ++i)
    if (casts_[i].awaitsHistory)
      giveHistory(active_->tensors[casts_[i].value], casts_[i].cast);
  casts_.resize(kept);
}

} // namespace graphopt::capture
