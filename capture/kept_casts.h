// The casts of weights that autocast keeps, asked for at the place where a program would have them made.
//
// Under autocast eager casts a weight once and gives every later use the same tensor, until the region ends:
// gradients of the uses then meet in the low precision. Which tensor that is follows from what ran in the
// region so far, under which grad mode, and from nothing that an operator shows. So it is fetched from
// LibTorch's own cache as the operator comes, as a live-in is.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>

#include <vector>

namespace graphopt::capture {

/// Whether autocast, with its cache on, would keep the cast of the tensor: it is a weight.
bool isCastKept(const at::Tensor &tensor);
/// Whether it has one now. Asking changes nothing.
bool hasKeptCast(const at::Tensor &tensor);
/// The kept cast of a weight, in the thread's dtype; made, as eager makes it, when there is none.
at::Tensor keptCast(const at::Tensor &weight);

/// The same for a row that is put off: false, with a cast that has no history yet, when there was none. It is
/// made where the row runs, since autograd adds gradients in the order in which their nodes were made.
bool keepCastForLater(const at::Tensor &weight, at::Tensor &cast);
/// Makes it; nothing happens when there is one.
void giveHistory(const at::Tensor &weight, const at::Tensor &cast);

/// While it lives, LibTorch's cache has the casts that it is told: rows that were put off run in another
/// region than the one they were called in, or in none. Afterwards it has what it had of their weights.
class CastsAsTaken {
public:
  explicit CastsAsTaken(std::vector<at::Tensor> weights) : weights_(std::move(weights)) {}
  ~CastsAsTaken();
  CastsAsTaken(const CastsAsTaken &) = delete;
  CastsAsTaken &operator=(const CastsAsTaken &) = delete;
  /// Of one of the weights, under autocast.
  void use(const at::Tensor &weight, const at::Tensor &cast);

private:
  const std::vector<at::Tensor> weights_;
  std::vector<at::Tensor> before_; // the casts that were there, one a weight; empty: nothing was changed
};

} // namespace graphopt::capture
