// The autograd node of a compiled segment.
#pragma once
#include "capture/thread_probe.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <atomic>
#include <functional>
#include <optional>
#include <vector>

namespace graphopt::driver {

/// What the forward leaves for the backward. Tensors that the program can see are saved as autograd saves
/// them; others are held, and where their memory is seen through another tensor, its version is watched.
class SegmentNodeBackward final : public torch::autograd::Node {
public:
  /// Gets residuals, live-ins and a cotangent for each differentiable result; gives the gradients of the
  /// node's next edges.
  struct Saved {
    std::vector<at::Tensor> residuals, liveIns;
  };
  using Backward =
      std::function<std::vector<at::Tensor>(const Saved &saved, std::vector<at::Tensor> cotangents)>;
  /// How the node computes.
  struct Ways {
    Backward plan;
    /// The forward once more, through autograd, and gradients from that: for a graph of the gradients
    /// (create_graph), and where some cotangents are undefined, which makes gradients undefined that zeros
    /// would not. Null: it draws random numbers or writes, and cannot run again.
    Backward again;
    bool keepsValues = true;     ///< the plan reads values of the forward
    std::vector<size_t> liveIns; ///< those that the plan reads
    /// Autocast (ThreadProbe::autocastOf) under which the plan is what autograd's nodes would compute: they
    /// run under that of whoever calls backward().
    std::vector<capture::ThreadWord> autocast;
    std::shared_ptr<std::atomic<capture::ThreadWord>> seenAutocast; ///< gets the one that backward runs under
  };

  SegmentNodeBackward(std::string segment, Ways ways)
      : segment_(std::move(segment)), ways_(std::move(ways)) {}

  void saveResidual(const at::Tensor &tensor);
  /// Of a result that the program holds; its history is this node.
  void saveOutput(const at::Tensor &tensor);
  void saveLiveIn(const at::Tensor &tensor);
  /// The residual at `position` shares memory with `visible`.
  void watch(size_t position, const at::Tensor &visible);

  torch::autograd::variable_list apply(torch::autograd::variable_list &&cotangents) override;
  void release_variables() override;
  std::string name() const override { return "graphopt::SegmentBackward"; }

private:
  struct Held {
    at::Tensor tensor;                                   // not seen by the program
    std::optional<torch::autograd::SavedVariable> saved; // else
    bool isOutput = false;
  };
  struct Watched {
    size_t position;
    c10::VariableVersion version;
    uint32_t seen;
  };
  void checkUsable() const;
  [[noreturn]] void refuse(bool isAutocastOther) const;
  std::vector<at::Tensor> unpackLiveIns() const;
  Saved unpack();

  const std::string segment_;
  const Ways ways_;
  std::vector<Held> residuals_;
  std::vector<torch::autograd::SavedVariable> liveIns_;
  std::vector<Watched> watched_;
  bool isReleased_ = false;
};

} // namespace graphopt::driver
