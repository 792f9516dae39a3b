// Arguments for the calls of one program: the given ones, and others that look like them.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <vector>

namespace graphopt::corpus {

/// Copies: a loaded archive's tensors have no allocator, as memory of the host's own; a program's arguments
/// do.
std::vector<c10::IValue> inOwnMemory(const std::vector<c10::IValue> &given);

/// Like `given`, with other contents: numbers with their tensor's mean and deviation, integers from its
/// range.
std::vector<c10::IValue> freshContents(const std::vector<c10::IValue> &given, uint64_t seed);

/// Copies that share memory as the tensors do. Whole storages: as_strided reads outside its tensor.
std::vector<at::Tensor> copiesWithMemory(const std::vector<at::Tensor> &tensors);

} // namespace graphopt::corpus
