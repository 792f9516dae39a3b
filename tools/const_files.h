// Constants too large for the text: one file each, named by the hash of its contents.
#pragma once
#include "ir/graph.h"

#include <ATen/core/Tensor.h>

#include <string>

namespace graphopt::tools {

/// Where the constants of a text are and go: the folder that was given, else the text's own.
std::string constsDirOf(const std::string &text, const std::string &given);

/// The constant of a declaration from DIR/HASH.bin: its elements in C order, as the machine stores them.
/// Throws a user error that names the file when it is missing, its size is not the declared one, or its
/// contents do not have the hash that the text gives.
at::Tensor readConst(const ir::Value &value, const std::string &dir);
/// Writes DIR/HASH.bin; the folder is made when missing.
void writeConst(const ir::Value &value, const at::Tensor &tensor, const std::string &dir);

} // namespace graphopt::tools
