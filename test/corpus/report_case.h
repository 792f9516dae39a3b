// A case of corpus/reports as a program meets it: a module, and sets of arguments with what eager made of
// them.
#pragma once
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/module.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace graphopt::corpus {

/// What one set of arguments gave.
struct ReportRun {
  std::vector<at::Tensor> results, arguments, gradients, buffers;
};

class ReportCase {
public:
  ReportCase(const std::filesystem::path &folder, const std::string &name);

  torch::jit::Module load() const; ///< anew, in the case's mode
  size_t sets() const { return static_cast<size_t>(number("sets")); }
  /// Arguments of a set, in memory of their own, laid out as saved.
  std::vector<c10::IValue> arguments(size_t set) const;
  bool wantsGradients() const;
  std::vector<int64_t> gradientArguments() const { return numbers("grad_inputs"); }
  bool isTraining() const { return flag("train"); }
  /// -1: it draws nothing.
  int64_t seed(size_t set) const;

  using Call = std::function<c10::IValue(const std::vector<c10::IValue> &)>;
  /// One call of `module` through `call`, with gradients of the saved cotangents where the case has any.
  ReportRun run(size_t set, const torch::jit::Module &module, const Call &call) const;
  /// How `run` differs from what is saved for its set; empty when it does not.
  std::string difference(size_t set, const ReportRun &run) const;

private:
  at::Tensor saved(size_t set, const std::string &name) const;
  bool has(size_t set, const std::string &name) const;
  int64_t number(const std::string &name) const;
  bool flag(const std::string &name) const;
  std::vector<int64_t> numbers(const std::string &name) const;
  std::string differenceOf(const at::Tensor &want, const at::Tensor &got, bool isResult) const;

  std::filesystem::path module_;
  torch::jit::Module data_;
};

} // namespace graphopt::corpus
