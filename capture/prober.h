// Finds out what an operator is made of by running it once, alone, on tensors made for the purpose: the
// user's program is not executed, and nothing of it is held or changed.
#pragma once
#include "ir/pieces.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>

namespace graphopt::capture {

/// Runs a unit on its inputs, in order, through LibTorch with autograd, under the ambient state that its text
/// asks for. Gives its results, in order; undefined ones where there are none.
using UnitRunner =
    std::function<std::vector<at::Tensor>(const ir::Graph &unit, const std::vector<at::Tensor> &inputs)>;

struct ProberOptions {
  bool kernels = false; ///< always run kernels, on real contents: what the kernel-free way is checked against
};

struct ProberCounts {
  size_t forwards = 0, backwards = 0; ///< probes
  size_t withKernels = 0;             ///< among them those that needed kernels
  std::map<std::string, size_t>
      kernels; ///< run in the others, by operator: LibTorch has no shape function, we no rule
};

/// Keeps nothing between probes. Operators run without kernels (bare_run.h) unless what comes out is not what
/// the unit's types say, or an operator throws; then with kernels, on the contents of Contents, one after the
/// other. Random generators are put back. Not for use in a recorded call.
class Prober final : public ir::PieceSource {
public:
  explicit Prober(UnitRunner run, ProberOptions options = {}) : run_(std::move(run)), options_(options) {}
  const ir::ForwardPiece &forward(const ir::Graph &unit) override;
  const ir::BackwardPiece &backward(const ir::Graph &unit, const ir::GradientTypes &cotangents,
                                    const ir::GradientTypes &soFar) override;
  const ProberCounts &counts() const { return counts_; }

private:
  class Probe;
  std::vector<bool> requiresGradOf(const ir::Graph &unit);
  template <class F> std::string tryAll(const ir::Graph &unit, F &&attempt);
  UnitRunner run_;
  ProberOptions options_;
  ir::ForwardPiece forward_;
  ir::BackwardPiece backward_;
  ProberCounts counts_;
};

} // namespace graphopt::capture
