// Tensors in files: what --input @FILE reads and --save writes.
#pragma once
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace graphopt::tools {

/// The arguments in a file, moved to the device: FILE holds a saved tensor, a list or tuple of them
/// (torch.save), or is a TorchScript archive with buffers input0, input1 ...; FILE:NAME takes the buffers
/// NAME0, NAME1 ... Throws a user error that names the file.
std::vector<c10::IValue> loadArguments(const std::string &file, c10::Device device);

/// Writes tensors, on the CPU, as a list that torch.load and loadArguments read.
void saveTensors(const std::vector<at::Tensor> &tensors, const std::string &file);

} // namespace graphopt::tools
