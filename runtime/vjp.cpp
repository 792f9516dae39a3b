// The thread's state is set by hand: these run in the middle of operators below autograd.
#include "runtime/vjp.h"

#include "runtime/ambient.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <torch/csrc/autograd/autograd.h>

namespace graphopt::runtime {

namespace {

/// Autograd as the program has it.
class WithAutograd {
public:
  explicit WithAutograd(c10::DeviceType device) : scope_(device) {
    Ambient ambient;
    ambient.grad = true;
    scope_.enter(ambient);
  }

private:
  AmbientScope scope_;
};

} // namespace

at::Tensor leafOf(const at::Tensor &tensor) {
  WithAutograd scope(tensor.device().type());
  return tensor.detach().requires_grad_();
}

std::vector<at::Tensor> gradientsOf(const std::vector<at::Tensor> &outputs,
                                    const std::vector<at::Tensor> &cotangents,
                                    const std::vector<at::Tensor> &leaves) {
  std::vector<at::Tensor> roots, given;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || !outputs[i].requires_grad() || !cotangents[i].defined())
      continue;
    roots.push_back(outputs[i]);
    given.push_back(cotangents[i]);
  }
  if (roots.empty())
    return std::vector<at::Tensor>(leaves.size());
  WithAutograd scope(roots[0].device().type());
  return torch::autograd::grad(roots, leaves, given, /*retain_graph=*/false, /*create_graph=*/false,
                               /*allow_unused=*/true);
}

at::Tensor laidOut(const at::Tensor &tensor, const std::vector<int64_t> &strides) {
  if (!tensor.defined() || tensor.strides() == strides)
    return tensor;
  c10::NoGradGuard noGrad;
  bool liesSo = true; // but for dims of one element
  for (int64_t dim = 0; dim < tensor.dim(); ++dim)
    liesSo &= tensor.size(dim) == 1 || tensor.stride(dim) == strides[static_cast<size_t>(dim)];
  if (liesSo)
    return tensor.as_strided(tensor.sizes(), strides);
  return at::empty_strided(tensor.sizes(), strides, tensor.options()).copy_(tensor);
}

} // namespace graphopt::runtime
