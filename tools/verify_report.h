// What the verify command found: a row for each tensor that is worth one, and whether all agree.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace graphopt::tools {

/// Rows of the report, and whether all of them passed.
class Report {
public:
  explicit Report(bool bars) : bars_(bars) {}

  /// Bit for bit, unless `oracle` is given: then the fp64 rule decides. Rows of equal tensors print when
  /// `always`.
  void compare(const std::string &name, const at::Tensor &eager, const at::Tensor &actual,
               const at::Tensor &oracle, bool always);
  void fail(const std::string &line) {
    text_ += line + "\n";
    ++misses_;
  }
  bool passed() const { return misses_ == 0; }
  std::string finish(const std::string &what) const;

private:
  const bool bars_;
  std::string text_;
  int misses_ = 0;
};

/// Tensors in order, named by their positions after `name`.
void compareAll(Report &report, const std::string &name, const std::vector<at::Tensor> &eager,
                const std::vector<at::Tensor> &actual, const std::vector<at::Tensor> &oracle, bool always);

} // namespace graphopt::tools
