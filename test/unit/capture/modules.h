// LibTorch modules as programs; in a file of their own, since torch/nn.h is slow to compile.
#pragma once
#include "capture/program.h"

namespace graphopt::capture {

struct ModuleCase {
  std::unique_ptr<Program> program;
  std::vector<c10::IValue> args;
};

ModuleCase mlp();
ModuleCase convNet(bool training); ///< conv, batch norm, relu, pool, linear
ModuleCase transformerBlock();     ///< pre-norm, own attention over scaled_dot_product_attention
ModuleCase multiheadAttention();   ///< torch::nn::MultiheadAttention, self-attention
ModuleCase lstm();
ModuleCase gruLoop(int64_t steps); ///< a GRUCell unrolled over steps
ModuleCase scoped();               ///< GRAPHOPT_SCOPE around an mlp's layers

} // namespace graphopt::capture
