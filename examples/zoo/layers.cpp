// See layers.h.
#include "zoo/layers.h"

namespace zoo {

void drawNormal(torch::nn::Module &module) {
  const torch::NoGradGuard noGrad;
  for (const auto &parameter : module.named_parameters()) {
    torch::Tensor tensor = parameter.value();
    if (tensor.dim() > 1)
      tensor.normal_(0, 0.02);
    else if (parameter.key().ends_with("bias"))
      tensor.zero_();
  }
}

} // namespace zoo
