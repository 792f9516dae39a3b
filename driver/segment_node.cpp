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

void SegmentNodeBackward::saveLiveIn(size_t position, const at::Tensor &tensor) {
  liveIns_.emplace_back(position, SavedVariable(tensor, /*is_output=*/false));
}

void SegmentNodeBackward::watch(size_t position, const at::Tensor &visible) {
  const c10::VariableVersion &version = torch::autograd::impl::version_counter(visible);
  watched_.push_back({position, version, version.current_version()});
}

void SegmentNodeBackward::checkUsable() const {
  if (isReleased_)
    TORCH_CHECK(false, "Trying to backward through the graph a second time (", segment_,
                "): what its forward kept was freed by the first backward. Give retain_graph=true to it.");
  if (c10::GradMode::is_enabled())
    userError(
        fmt::format("{}: create_graph was asked for, and the backward of a compiled segment has no graph of "
                    "its own: run the model under Stance::forceEager to differentiate twice",
                    segment_));
  for (const Watched &watched : watched_)
    TORCH_CHECK(
        watched.version.current_version() == watched.seen,
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        "a result of ",
        segment_, " is at version ", watched.version.current_version(), "; expected version ", watched.seen,
        " instead.");
}

SegmentNodeBackward::Saved SegmentNodeBackward::unpack() {
  Saved saved;
  const std::shared_ptr<torch::autograd::Node> self = shared_from_this();
  for (Held &held : residuals_)
    saved.residuals.push_back(held.saved ? held.saved->unpack(self) : held.tensor);
  for (auto &[position, variable] : liveIns_) {
    saved.liveIns.resize(std::max(saved.liveIns.size(), position + 1));
    saved.liveIns[position] = variable.unpack();
  }
  return saved;
}

variable_list SegmentNodeBackward::apply(variable_list &&cotangents) {
  checkUsable();
  if (std::none_of(cotangents.begin(), cotangents.end(), [](const at::Tensor &t) { return t.defined(); }))
    return variable_list(num_outputs());
  for (size_t i = 0; i < cotangents.size(); ++i)
    if (!cotangents[i].defined())
      cotangents[i] = input_metadata(static_cast<uint32_t>(i)).zeros_like();
  return backward_(unpack(), std::move(cotangents));
}

void SegmentNodeBackward::release_variables() {
  isReleased_ = true;
  residuals_.clear();
  liveIns_.clear();
  watched_.clear();
}

} // namespace graphopt::driver
