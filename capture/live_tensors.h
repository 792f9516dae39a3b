// The tensors that a graph's declared values stand for in one call.
#pragma once
#include "capture/capture.h"

namespace graphopt::capture {

class LiveTensors {
public:
  /// `leaves`: the tensor leaves of the call's arguments.
  LiveTensors(const Capture &capture, const std::vector<at::Tensor> &leaves);
  struct Entry {
    ir::Value *value;
    at::Tensor tensor; // undefined: the program has dropped it
  };
  /// Inputs, then the rest in the order of Capture::bound; consts and hostvals are left out, since nobody
  /// else can hold them.
  const std::vector<Entry> &all() const { return all_; }
  /// Quick when asked in the order of all().
  const at::Tensor &of(const ir::Value *value);

private:
  std::vector<Entry> all_;
  size_t next_ = 0;
};

/// Whether two tensors of one storage have bytes in common, judged by the first and last byte of each:
/// strides that interleave count as overlap.
bool overlap(const at::Tensor &a, const at::Tensor &b);

} // namespace graphopt::capture
