// The interpreter: runs a graph of any stage op by op through ATen. Slow and plain: it is the oracle.
#pragma once
#include "ir/graph.h"
#include "runtime/bind.h"

#include <ATen/core/Tensor.h>
#include <functional>
#include <vector>

namespace graphopt::runtime {

struct InterpretOptions {
  /// Run with every floating value and floating dtype attribute promoted to f64: the accuracy oracle.
  /// Autocast is off; the environment is converted, never written. Operators that exist only in low precision
  /// end it with a user error. Changes the
  /// process's default dtype while it runs: one such run at a time, and no other torch work beside it.
  bool fp64 = false;
  /// Values of syms that no declared tensor decides.
  SymValues syms = {};
  /// Reads a constant that is kept in a file (Value::contentHash) and not in the environment.
  ConstantLoader loadConstant = {};
};

/// The operands of the return, in order (undefined tensors where it says none; host scalars as 0-dim
/// tensors). Operators of a captured graph go through ordinary dispatch, so composite ones
/// decompose as in eager; those of later stages run below autograd. Borders are
/// passed over: they mark what the host saw. Throws a user error that names the op when a declared value has
/// no tensor or another type, an operator is unknown, or an attribute is opaque; errors of the operators
/// themselves pass through.
std::vector<at::Tensor> interpret(const ir::Graph &graph, const Environment &environment,
                                  const InterpretOptions &options = {});

} // namespace graphopt::runtime
