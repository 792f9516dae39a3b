// Copies of tensors for a second run that nobody sees: what shares memory in the originals shares memory in
// the copies, and autograd and the dispatcher treat them alike.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace graphopt::driver {

class LiveCopies {
public:
  /// The bytes that copies take: each memory once.
  static size_t bytesOf(const std::vector<at::Tensor> &originals);
  /// Undefined tensors stay so. Throws what allocations throw, and a user error for tensors that are more
  /// than memory with sizes and strides.
  explicit LiveCopies(const std::vector<at::Tensor> &originals);

  /// In the order of the originals.
  const std::vector<at::Tensor> &tensors() const { return copies_; }
  size_t memories() const { return memories_.size(); }
  /// The memory of an original; memories() when it has none.
  size_t memoryOf(size_t tensor) const { return memoryOf_[tensor]; }
  /// The first original that lies in the memory.
  size_t firstIn(size_t memory) const { return memories_[memory].first; }
  /// Whether the original's and the copy's bytes are equal now.
  bool agree(size_t memory) const;

  /// Keeps what the copy of a memory holds now.
  void keep(size_t memory);
  /// Whether a kept copy has been written since.
  bool changed(size_t memory) const;
  /// Puts kept bytes back, or else those of the original, and makes the copies anew: without what happened to
  /// them.
  void renew();

private:
  struct Memory {
    c10::Storage original, copy;
    size_t first;
    at::Tensor kept;
  };
  void makeTensors();

  std::vector<at::Tensor> originals_, copies_;
  std::vector<size_t> memoryOf_;
  std::vector<Memory> memories_;
};

} // namespace graphopt::driver
