// The autograd node of a compiled segment.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <functional>
#include <optional>
#include <vector>

namespace graphopt::driver {

/// What the forward leaves for the backward. Tensors that the program can see are saved as autograd saves
/// them; others are held, and where their memory is seen through another tensor, its version is watched.
class SegmentNodeBackward final : public torch::autograd::Node {
public:
  /// Gets residuals, live-ins and cotangents (undefined ones replaced by zeros); gives the gradients of the
  /// node's next edges.
  struct Saved {
    std::vector<at::Tensor> residuals, liveIns;
  };
  using Backward =
      std::function<std::vector<at::Tensor>(const Saved &saved, std::vector<at::Tensor> cotangents)>;

  explicit SegmentNodeBackward(std::string segment, Backward backward)
      : segment_(std::move(segment)), backward_(std::move(backward)) {}

  void saveResidual(const at::Tensor &tensor);
  /// Of a result that the program holds; its history is this node.
  void saveOutput(const at::Tensor &tensor);
  void saveLiveIn(size_t position, const at::Tensor &tensor);
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
  Saved unpack();

  const std::string segment_;
  Backward backward_;
  std::vector<Held> residuals_;
  std::vector<std::pair<size_t, torch::autograd::SavedVariable>> liveIns_;
  std::vector<Watched> watched_;
  bool isReleased_ = false;
};

} // namespace graphopt::driver
