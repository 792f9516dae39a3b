// A training loop around a model, run twice: with the model as it is, and with its forward compiled.
// Everything the loop writes down has to be the same, bit for bit.
#pragma once
#include <graphopt/graphopt.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace loops {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr int kSteps = 8;

inline bool sameBits(const Tensor &a, const Tensor &b) {
  if (!a.defined() || !b.defined())
    return a.defined() == b.defined();
  if (a.sizes() != b.sizes() || a.dtype() != b.dtype())
    return false;
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

/// What a loop writes down, under a name for messages.
class Notes {
public:
  void add(const std::string &what, const Tensor &value) {
    names_.push_back(what);
    values_.push_back(value.defined() ? value.detach().clone() : value);
  }
  void addModel(int step, const torch::nn::Module &model) {
    const std::string at = "step " + std::to_string(step) + " ";
    for (const auto &item : model.named_parameters()) {
      add(at + item.key(), item.value());
      add(at + "gradient of " + item.key(), item.value().grad());
    }
    for (const auto &item : model.named_buffers())
      add(at + item.key(), item.value());
  }
  void expectSame(const Notes &other) const {
    ASSERT_EQ(names_, other.names_);
    for (size_t i = 0; i < names_.size(); ++i)
      ASSERT_TRUE(sameBits(values_[i], other.values_[i])) << names_[i];
  }

private:
  std::vector<std::string> names_;
  Tensors values_;
};

using Forward = std::function<Tensor(const Tensor &x)>;

/// What explain() has to say of the compiled side.
struct Expected {
  uint64_t compiledRuns = 1;            ///< at least so many
  std::vector<std::string> others = {}; ///< reasons why segments may have gone through autograd's nodes
};

inline void expectRuns(const graphopt::Explanation &explanation, const Expected &expected) {
  EXPECT_GE(explanation.compiledRuns, expected.compiledRuns) << explanation;
  for (const auto &[reason, count] : explanation.notCompiled)
    EXPECT_TRUE(std::ranges::any_of(
        expected.others,
        [&, &reason = reason](const std::string &other) { return reason.find(other) != std::string::npos; }))
        << reason << "\n"
        << explanation;
}

/// Runs `loop` with a new model twice: as it is, and with its forward compiled.
template <class Model, class Loop> void expectAsEager(const Loop &loop, const Expected &expected) {
  Notes eager, compiled;
  torch::manual_seed(11);
  auto plain = std::make_shared<Model>();
  loop(*plain, [&](const Tensor &x) { return plain->forward(x); }, eager);
  torch::manual_seed(11);
  auto model = std::make_shared<Model>();
  auto fast = graphopt::compile(model);
  loop(*model, [&](const Tensor &x) { return fast(x); }, compiled);
  eager.expectSame(compiled);
  expectRuns(fast.explain(), expected);
}

inline Tensor batch(int step, at::IntArrayRef sizes) {
  return torch::randn(sizes, at::detail::createCPUGenerator(static_cast<uint64_t>(500 + step)));
}

/// The plainest loop: `lossOf` gives a step's loss.
inline void trainPlainly(torch::nn::Module &model, Notes &notes,
                         const std::function<Tensor(int step)> &lossOf, int steps = kSteps) {
  torch::optim::SGD sgd(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < steps; ++step) {
    sgd.zero_grad();
    const Tensor loss = lossOf(step);
    loss.backward();
    sgd.step();
    notes.add("loss", loss);
    notes.addModel(step, model);
  }
}

} // namespace loops
