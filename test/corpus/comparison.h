// What two runs of one program have to agree in, bit for bit or within a tolerance.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace graphopt::corpus {

/// Seeds the CPU's default generator.
void seedAll(int64_t seed);

/// The tensors in nested values, in order.
std::vector<at::Tensor> leavesOf(const std::vector<c10::IValue> &values);

/// How `got` differs from `want` in metadata or bits; empty when it does not. `shapeOnly`: values are not
/// looked at.
std::string difference(const at::Tensor &want, const at::Tensor &got, bool shapeOnly = false);

/// The first difference, with the position of the tensor after `what`.
std::string differenceIn(const char *what, const std::vector<at::Tensor> &want,
                         const std::vector<at::Tensor> &got, bool shapeOnly = false);

/// The stride of a dim of size 1 means nothing, and autograd's engine gives another one when it adds two
/// gradients in place: the tensors with strides that do not show it.
std::vector<at::Tensor> withoutUnitStrides(std::vector<at::Tensor> tensors);

/// The same for numbers that may be off by `tolerance` times the largest of their tensor; metadata are equal.
std::string distanceIn(const char *what, const std::vector<at::Tensor> &want,
                       const std::vector<at::Tensor> &got, double tolerance, bool shapeOnly);

} // namespace graphopt::corpus
