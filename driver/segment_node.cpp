// Messages are those of autograd where it has one for the case.
#include "driver/segment_node.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <graphopt/error.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

namespace graphopt::driver {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

void SegmentNodeBackward::saveResidual(const at::Tensor &tensor) {
  residuals_.push_back({tensor, {}, false});
}

void SegmentNodeBackward::saveOutput(const at::Tensor &tensor) {
  residuals_.push_back({{}, SavedVariable(tensor, /*is_output=*/tensor.grad_fn().get() == this), true});
}

void SegmentNodeBackward::saveInput(const at::Tensor &tensor) {
  inputs_.emplace_back(tensor, /*is_output=*/false);
}

void SegmentNodeBackward::watch(size_t position, const at::Tensor &visible) {
  const c10::VariableVersion &version = torch::autograd::impl::version_counter(visible);
  watched_.push_back({position, version, version.current_version()});
}

void SegmentNodeBackward::checkUsable() const {
  TORCH_CHECK(!isReleased_ || !ways_.keepsValues, torch::autograd::ERR_BACKWARD_TWICE);
  for (const Watched &watched : watched_)
    TORCH_CHECK(
        watched.version.current_version() == watched.seen,
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        "a result of ",
        segment_, " is at version ", watched.version.current_version(), "; expected version ", watched.seen,
        " instead.");
}

std::vector<at::Tensor> SegmentNodeBackward::unpackInputs() const {
  TORCH_CHECK(!isReleased_, torch::autograd::ERR_BACKWARD_TWICE);
  std::vector<at::Tensor> tensors;
  for (const SavedVariable &variable : inputs_)
    tensors.push_back(variable.unpack());
  return tensors;
}

SegmentNodeBackward::Saved SegmentNodeBackward::unpack() {
  Saved saved;
  const std::shared_ptr<torch::autograd::Node> self = shared_from_this();
  for (Held &held : residuals_)
    saved.residuals.push_back(held.saved ? held.saved->unpack(self) : held.tensor);
  saved.inputs.resize(inputs_.size());
  for (size_t position : ways_.inputs)
    if (position < inputs_.size())
      saved.inputs[position] = inputs_[position].unpack();
  return saved;
}

void SegmentNodeBackward::refuse() const {
  if (!c10::GradMode::is_enabled())
    userError(fmt::format("{}: backward runs under another autocast than it did before, which changes its "
                          "operators' dtypes, and the segment writes to memory from outside and cannot run "
                          "again for that: call backward() outside of the autocast region, or compile with "
                          "compileBackward = false",
                          segment_));
  userError(
      fmt::format("{}: create_graph was asked for, but its operators write to memory from outside and cannot "
                  "run again for a graph of the gradients: compile with compileBackward = false, or run "
                  "the model under Stance::forceEager",
                  segment_));
}

variable_list SegmentNodeBackward::apply(variable_list &&cotangents) {
  const auto isDefined = [](const at::Tensor &tensor) { return tensor.defined(); };
  if (std::none_of(cotangents.begin(), cotangents.end(), isDefined))
    return variable_list(num_outputs());
  checkUsable();
  const bool fits = ways_.fits(cotangents);
  if (fits && !c10::GradMode::is_enabled()) {
    if (!ways_.mayMiss)
      return ways_.plan(unpack(), std::move(cotangents));
    if (variable_list gradients = ways_.plan(unpack(), cotangents); !gradients.empty())
      return gradients;
  }
  if (!ways_.again)
    refuse();
  return ways_.again({{}, unpackInputs()}, std::move(cotangents));
}

void SegmentNodeBackward::release_variables() {
  isReleased_ = true;
  residuals_.clear();
  inputs_.clear();
  watched_.clear();
}

} // namespace graphopt::driver
