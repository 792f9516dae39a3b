// A program with autocast regions, run in eager and with its functions compiled: what it shows has to be the
// same bit for bit.
#pragma once
#include <graphopt/graphopt.h>

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <functional>

namespace graphopt::scene {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using Body = std::function<Tensor(const Tensor &)>;

/// An autocast region, as a program writes it.
class Region {
public:
  explicit Region(bool on = true, at::ScalarType dtype = at::kBFloat16) {
    at::autocast::increment_nesting();
    at::autocast::set_autocast_enabled(at::kCPU, on);
    at::autocast::set_autocast_dtype(at::kCPU, dtype);
  }
  ~Region() {
    at::autocast::set_autocast_enabled(at::kCPU, wasOn_);
    at::autocast::set_autocast_dtype(at::kCPU, wasType_);
    if (at::autocast::decrement_nesting() == 0)
      at::autocast::clear_cache();
  }
  Region(const Region &) = delete;
  Region &operator=(const Region &) = delete;

private:
  const bool wasOn_ = at::autocast::is_autocast_enabled(at::kCPU);
  const at::ScalarType wasType_ = at::autocast::get_autocast_dtype(at::kCPU);
};

class NoCache {
public:
  NoCache() { at::autocast::set_autocast_cache_enabled(false); }
  ~NoCache() { at::autocast::set_autocast_cache_enabled(true); }
};

inline bool sameBits(const Tensor &a, const Tensor &b) {
  if (!a.defined() || !b.defined())
    return a.defined() == b.defined();
  if (a.sizes() != b.sizes() || a.dtype() != b.dtype() || a.requires_grad() != b.requires_grad())
    return false;
  const Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

/// Weights, and what a run shows.
struct Scene {
  std::function<Body(Body)> compile;
  Tensors seen;

  static Tensor weight(at::IntArrayRef sizes) { return torch::randn(sizes).mul_(0.3).requires_grad_(); }
  void see(const Tensor &tensor) { seen.push_back(tensor.defined() ? tensor.clone() : tensor); }
  /// Gradients are seen and followed.
  void step(const Tensors &weights) {
    const at::NoGradGuard noGrad;
    for (const Tensor &weight : weights) {
      see(weight.grad());
      if (weight.grad().defined())
        weight.sub_(weight.grad(), 0.01);
      weight.mutable_grad() = Tensor();
    }
  }
};

using Program = std::function<void(Scene &run)>;

/// Runs the program in eager and compiled. Gives what the compiled callable says of itself.
inline graphopt::Explanation expectAsEager(const Program &program) {
  Scene eager{[](Body body) { return body; }, {}};
  torch::manual_seed(5);
  program(eager);
  std::function<graphopt::Explanation()> explain;
  Scene compiled{[&](Body body) {
                   auto fast = graphopt::compile(std::move(body));
                   explain = [fast] { return fast.explain(); };
                   return Body([fast](const Tensor &x) { return fast(x); });
                 },
                 {}};
  torch::manual_seed(5);
  program(compiled);
  const graphopt::Explanation explanation = explain();
  EXPECT_EQ(eager.seen.size(), compiled.seen.size());
  for (size_t i = 0; i < std::min(eager.seen.size(), compiled.seen.size()); ++i)
    if (!sameBits(eager.seen[i], compiled.seen[i])) {
      ADD_FAILURE() << "value " << i << " of " << eager.seen.size() << ": eager " << eager.seen[i]
                    << "\ncompiled " << compiled.seen[i] << "\n"
                    << explanation;
      break; // what follows from it differs too
    }
  return explanation;
}

inline void expectCompiledAsEager(const Program &program) {
  const graphopt::Explanation explanation = expectAsEager(program);
  EXPECT_GT(explanation.compiledRuns, 0u) << explanation;
  EXPECT_TRUE(explanation.notCompiled.empty()) << explanation;
}

constexpr int kSteps = 8;

inline Tensor input(at::IntArrayRef sizes = {4, 6}) { return torch::randn(sizes); }

} // namespace graphopt::scene
