// The interpreter: runs a graph of any stage op by op through ATen. Slow and plain: it is the oracle.
#pragma once
#include "ir/graph.h"

#include <ATen/core/Tensor.h>
#include <string>
#include <unordered_map>
#include <vector>

namespace graphopt::runtime {

/// Tensors for declared values, by name. Written ones (writebacks, &mut) are written in place.
using Environment = std::unordered_map<std::string, at::Tensor>;

struct InterpretOptions {
  /// Run with every floating value and floating dtype attribute promoted to f64: the accuracy oracle. The environment is
  /// converted, never written.
  bool fp64 = false;
};

/// The operands of the return, in order (undefined tensors where it says none). Throws a user error that names the op when a
/// declared value has no tensor, an operator is unknown, or an attribute is opaque; errors of the operators
/// themselves pass through.
std::vector<at::Tensor> interpret(const ir::Graph &graph, const Environment &environment,
                                  const InterpretOptions &options = {});

} // namespace graphopt::runtime
