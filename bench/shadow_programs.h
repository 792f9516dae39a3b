// Host code to measure: no arguments, one result, tiny tensors.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

namespace graphopt::bench {

using Code = std::function<at::Tensor()>;

/// Ten kinds of cheap operators in a row.
Code chain(int rounds);
/// torch::nn: Linear and ReLU.
Code sequential(int pairs);
/// Pre-norm blocks with attention by hand.
Code transformer(int blocks);
/// The same on other inputs: [batch, length, 8].
std::function<at::Tensor(const at::Tensor &)> transformerOn(int blocks);
/// Convolution, batch norm (evaluation), ReLU, with shortcuts.
Code resnet(int blocks);
/// A TorchScript module with submodules.
Code script(int layers);

} // namespace graphopt::bench
