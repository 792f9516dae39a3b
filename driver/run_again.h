// A part of a segment once more, through autograd: for backwards that no plan was made for.
#pragma once
#include "capture/random_watch.h"
#include "ir/graph.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace graphopt::driver {

/// A graph to be run through autograd.
struct SurfaceGraph {
  std::shared_ptr<const ir::Graph> graph; ///< captured, in functional form
  std::vector<std::string> names;         ///< of the inputs
  std::vector<size_t> positions;          ///< of those that get gradients
  std::vector<bool> isDifferentiable;     ///< one a result
  std::vector<c10::Device> drawsOn;       ///< whose generators it draws from
};

/// Gradients of the inputs at the positions, for a cotangent for each differentiable result. What draws in
/// the forward draws as from `draws`, null where nothing does; in the backward as it would now. With grad
/// mode on the gradients have a graph (create_graph).
std::vector<at::Tensor> gradientsAgain(const SurfaceGraph &surface, const capture::GeneratorStates *draws,
                                       const std::vector<ir::SymValue> &syms,
                                       const std::vector<at::Tensor> &inputs,
                                       const std::vector<at::Tensor> &cotangents);

} // namespace graphopt::driver
