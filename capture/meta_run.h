// Operators on tensors without memory.
#pragma once
#include "capture/segment.h"
#include "capture/thread_probe.h"

#include <ATen/core/stack.h>

namespace graphopt::capture {

/// Puts a tensor argument, or a list of them, on a stack as the operator's type has it. `mark`: none for a
/// list that is not given.
void pushTensors(torch::jit::Stack &stack, const ArgumentFacts &facts, const c10::IValue &mark,
                 c10::ArrayRef<at::Tensor> tensors);

/// Which kernel LibTorch chooses for a row that is scaled_dot_product_attention: each lays its result out in
/// its own way.
int64_t attentionKernel(const Segment &segment, size_t row);

} // namespace graphopt::capture
