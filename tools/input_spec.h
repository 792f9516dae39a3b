// --input: arguments for a model, from a short text.
//
//   f32[8,3,224,224]      random: floats normal(0, 1), integers 0 or 1, bools fair
//   i64[2,16]:0..100      integers from [0, 100)
//   f32[B,16]             B from --sym B=32
//   3   2.5   true   none   "text"     a scalar argument
//   @tensors.pt           a saved tensor or list, or the buffers input0, input1 ... of a TorchScript file
//   @tensors.pt:alt_input the buffers alt_input0, alt_input1 ...
#pragma once
#include "runtime/content.h"

#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace graphopt::tools {

struct InputContext {
  c10::Device device{c10::kCPU};
  uint64_t seed = 1;
  runtime::SymValues syms;
};

/// The arguments that one --input stands for; `position` is that of its first, and makes random inputs differ
/// from each other. Throws a user error that quotes the text.
std::vector<c10::IValue> makeArguments(const std::string &spec, size_t position, const InputContext &context);

/// "B=32" as a sym and its value. Throws a user error that quotes the text.
ir::SymValue parseSym(const std::string &text);

} // namespace graphopt::tools
