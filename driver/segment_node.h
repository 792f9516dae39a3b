// The autograd node of a part of a compiled segment.
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
  /// Gets residuals, inputs and a cotangent for each differentiable result; gives the gradients of the
  /// node's next edges.
  struct Saved {
    std::vector<at::Tensor> residuals, inputs;
  };
  using Backward =
      std::function<std::vector<at::Tensor>(const Saved &saved, std::vector<at::Tensor> cotangents)>;
  /// How the node computes.
  struct Ways {
    Backward plan;        ///< empty: a gradient in the middle of it came otherwise than it counts on
    bool mayMiss = false; ///< it may be empty
    /// Whether the plan is made for this backward: for the autocast of whoever calls it (under which
    /// autograd's nodes would run), for the cotangents that there are, and how they lie. Asked at each.
    std::function<bool(const std::vector<at::Tensor> &cotangents)> fits;
    /// The forward once more, through autograd, and gradients from that: for a graph of the gradients
    /// (create_graph), and where the plan does not fit. Null: it writes, and cannot run again.
    Backward again;
    bool keepsValues = true;    ///< the plan reads values of the forward
    std::vector<size_t> inputs; ///< those that the plan reads
  };

  SegmentNodeBackward(std::string segment, Ways ways)
      : segment_(std::move(segment)), ways_(std::move(ways)) {}

  void saveResidual(const at::Tensor &tensor);
  /// Of a result that the program holds; its history is this node.
  void saveOutput(const at::Tensor &tensor);
  void saveInput(const at::Tensor &tensor);
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
  [[noreturn]] void refuse() const;
  std::vector<at::Tensor> unpackInputs() const;
  Saved unpack();

  const std::string segment_;
  const Ways ways_;
  std::vector<Held> residuals_;
  std::vector<torch::autograd::SavedVariable> inputs_;
  std::vector<Watched> watched_;
  bool isReleased_ = false;
};

} // namespace graphopt::driver
