// Tensors for a graph's declared values, and the syms that their sizes decide.
#pragma once
#include "ir/graph.h"
#include "runtime/to_ivalue.h"

#include <ATen/core/Tensor.h>
#include <functional>
#include <string>
#include <unordered_map>

namespace graphopt::runtime {

/// Tensors for declared values, by name. Written ones (write-backs, &mut) are written in place.
using Environment = std::unordered_map<std::string, at::Tensor>;

/// Reads the constant of a declaration whose contents lie in a file.
using ConstantLoader = std::function<at::Tensor(const ir::Value &)>;

/// The tensors of a graph's declarations: from the environment, else from inline contents, else from the
/// loader.
using Bindings = std::unordered_map<const ir::Value *, at::Tensor>;

/// Binds every declared value that is used, and every other one that the environment has. Adds the syms that
/// sizes decide to `syms`. Throws a user error for a used value without a tensor, and for a tensor whose
/// dtype or sizes are not the declared ones.
Bindings bindDeclarations(const ir::Graph &graph, const Environment &environment,
                          const ConstantLoader &loader, SymValues &syms);

/// Adds to `syms` what the sizes of one tensor decide: dims of the form a*S + b. Known syms stay.
void bindSyms(const ir::Type &type, const at::Tensor &tensor, SymValues &syms);

/// For the f64 run: every floating tensor as f64, every complex one as c128, all others copied, so that
/// nothing of the caller's is written. Tensors that share memory still do. A leaf that is f64 and requires
/// gradients stays itself.
Bindings promoted(const Bindings &bindings);

} // namespace graphopt::runtime
