// What can be seen of a tensor without asking who made it, and where two logs of such facts differ.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace graphopt::soundness {

/// One thing that a run showed: a text and, for tensors, the bits.
struct Fact {
  int call = 0; ///< from 1; 0: before the first call
  std::string what;
  std::string text;
  at::Tensor bits = {}; ///< a copy of the data, dense; undefined for what has none
};

/// A tensor that the outside holds under a name, for relations between tensors.
struct Named {
  std::string name;
  at::Tensor tensor;
};

/// dtype, sizes, strides, offset, requires_grad, leaf, view, version ... and the bits.
Fact factOf(int call, const std::string &what, const at::Tensor &tensor);
/// With whom of `all` each tensor shares memory, is one object, or has as its base. Tensors without any such
/// relation are left out.
std::vector<Fact> relations(int call, const std::vector<Named> &all);
/// The switches of the thread: a call must leave them as it found them, unless the program itself set them.
std::string ambientText();
/// "std::runtime_error: text", the first line of the message alone.
std::string describe(const std::exception &error);

/// What differs, for people; empty when nothing does. At most `limit` differences are listed.
std::vector<std::string> differences(const std::vector<Fact> &want, const std::vector<Fact> &got,
                                     size_t limit = 4);

} // namespace graphopt::soundness
