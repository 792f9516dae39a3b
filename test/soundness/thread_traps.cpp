// Several threads: one callable shared, one each, work handed out inside a call, and tensors that cross
// threads.
#include "trap.h"

#include <ATen/Parallel.h>
#include <torch/nn/modules/linear.h>

#include <atomic>
#include <mutex>
#include <thread>

namespace graphopt::soundness {
namespace {

constexpr int kThreads = 4;
constexpr int kCallsEach = 25;

/// Runs `body` on four threads under the switches of this one; the first error is thrown here.
void onThreads(const std::function<void(int)> &body) {
  std::vector<std::thread> threads;
  std::exception_ptr error;
  std::mutex mutex;
  const bool grad = at::GradMode::is_enabled(), inference = c10::InferenceMode::is_enabled();
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      try {
        const c10::InferenceMode inferenceMode(inference);
        const at::AutoGradMode mode(grad);
        body(thread);
      } catch (...) {
        const std::lock_guard lock(mutex);
        error = std::current_exception();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  if (error)
    std::rethrow_exception(error);
}

/// Arguments are made before the threads start, so that each gets the same in both runs.
std::vector<std::vector<Tensor>> argumentsFor(Trial &run, at::IntArrayRef sizes) {
  std::vector<std::vector<Tensor>> all(kThreads);
  for (auto &mine : all)
    for (int i = 0; i < kCallsEach; ++i)
      mine.push_back(run.randn(sizes));
  return all;
}

template <class F> void callFromThreads(Trial &run, at::IntArrayRef sizes, F call) {
  const auto arguments = argumentsFor(run, sizes);
  std::vector<std::vector<Tensor>> results(kThreads);
  onThreads([&](int thread) {
    for (const Tensor &x : arguments[thread])
      results[thread].push_back(call(thread, x));
  });
  for (int thread = 0; thread < kThreads; ++thread)
    run.see("thread " + std::to_string(thread), results[thread]);
}

} // namespace

TRAP(Thread, OneCallable) {
  auto net = std::make_shared<torch::nn::LinearImpl>(4, 3);
  auto f = run.compile([net](Tensor x) { return net->forward(x).tanh() + 1; });
  run.calls([&](int) { callFromThreads(run, {2, 4}, [&](int, Tensor x) { return f(x); }); }, 3);
}

TRAP(Thread, OneCallableWithBranches) {
  auto f = run.compile([](Tensor x) {
    Tensor y = x.sum().item<float>() > 0 ? x.exp() : x.neg();
    return y.max().item<float>() > 2 ? y / y.max() : y * 2 + 1;
  });
  run.calls([&](int) { callFromThreads(run, {3}, [&](int, Tensor x) { return f(x); }); }, 3);
}

TRAP(Thread, OneCallableManySizes) {
  auto f = run.compile([](Tensor x) { return x.flatten().softmax(0) * x.size(0); });
  run.calls(
      [&](int) {
        callFromThreads(run, {6, 2}, [&](int thread, Tensor x) { return f(x.slice(0, 0, 1 + thread)); });
      },
      3);
}

TRAP(Thread, OneEach) {
  auto net = std::make_shared<torch::nn::LinearImpl>(4, 3);
  run.calls(
      [&](int) {
        std::vector<std::function<Tensor(Tensor)>> each;
        for (int i = 0; i < kThreads; ++i)
          each.push_back([f = run.compile([net, i](Tensor x) { return net->forward(x) * i; })](Tensor x) {
            return f(x);
          });
        callFromThreads(run, {2, 4}, [&](int thread, Tensor x) { return each[thread](x); });
      },
      3);
}

TRAP(Thread, BackwardOnEach) {
  auto f = run.compile([](Tensor x) { return (x * x).exp().sum(); });
  run.calls(
      [&](int) {
        callFromThreads(run, {3}, [&](int, Tensor x) {
          x = x.clone().set_requires_grad(run.gradients());
          Tensor y = f(x);
          if (y.requires_grad())
            y.backward();
          return run.gradients() ? x.grad().clone() : y; // its version is autograd's business
        });
      },
      3);
}

TRAP(Thread, FirstCallOnAnotherThread) {
  auto f = run.compile([](Tensor x) { return x.exp() + 1; });
  run.calls([&](int call) {
    Tensor x = run.randn({3}), y;
    if (call % 2 == 0)
      y = f(x);
    else
      onThreads([&](int thread) {
        if (thread == 0)
          y = f(x);
      });
    run.see("y", y);
  });
}

TRAP(Thread, ParallelForInHostCode) {
  run.needsHost();
  auto f = run.compile([](Tensor x) {
    Tensor y = x * 2, out = torch::empty({64});
    const float *from = y.const_data_ptr<float>();
    float *to = out.mutable_data_ptr<float>();
    at::parallel_for(0, 64, 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = from[i] + static_cast<float>(i);
    });
    return out * y;
  });
  run.calls([&](int) { run.see("y", f(run.randn({64}))); });
}

// Documented: operators of another thread on a tensor that a call has not finished yet throw; the call that
// hands it over has to read it first (data_ptr, item, ...), which settles it.
TRAP(Thread, StartedInForwardReadsASettledTensor) {
  run.needsHost();
  auto f = run.compile([](Tensor x) {
    Tensor y = x * 2;
    y.const_data_ptr<float>(); // settles it
    Tensor sum;
    std::thread([&] {
      const at::NoGradGuard noGrad;
      sum = y.sum() * 3;
    }).join();
    return x + sum.item<float>();
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Thread, StartedInForwardReadsAPendingTensor) {
  auto f = run.compile([](Tensor x) {
    Tensor y = x * 2, sum;
    std::string error;
    std::thread([&] {
      try {
        const at::NoGradGuard noGrad;
        sum = y.sum() * 3;
      } catch (const std::exception &caught) {
        error = describe(caught);
      }
    }).join();
    return std::tuple<Tensor, std::string, Tensor>(sum, error, y + 1);
  });
  run.calls([&](int) {
    Tensor x = run.randn({3});
    auto [sum, error, y] = f(x);
    run.see("y", y);
    if (error.empty())
      run.see("right", torch::equal(sum, (x * 2).sum() * 3));
    else
      run.see("right", run.replays() && error.find("graphopt") != std::string::npos);
  });
}

TRAP(Thread, StartedInForwardRunsItsOwnOperators) {
  auto f = run.compile([](Tensor x) {
    Tensor own;
    Tensor y = x * 2;
    std::thread([&] { own = torch::ones({3}) * 5; }).join();
    return y + own;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(Thread, StateUnderALock) {
  auto total = std::make_shared<Tensor>(torch::zeros({3}));
  auto mutex = std::make_shared<std::mutex>();
  run.watch("total", [total] { return *total; });
  auto f = run.compile([total](Tensor x) {
    total->add_(x);
    return x + 1;
  });
  run.calls(
      [&](int) {
        // whole numbers, so that the order of the sums does not matter
        callFromThreads(run, {3}, [&](int, Tensor x) {
          const std::lock_guard lock(*mutex);
          return f(x.round());
        });
      },
      3);
}

TRAP(Thread, Pipeline) {
  auto first = run.compile([](Tensor x) { return x.exp() * 2; });
  auto second = run.compile([](Tensor x) { return x.tanh() + x; });
  run.calls(
      [&](int) {
        std::vector<Tensor> arguments, between(kCallsEach), results;
        for (int i = 0; i < kCallsEach; ++i)
          arguments.push_back(run.randn({4}));
        std::atomic<int> done{0};
        const bool grad = at::GradMode::is_enabled(), inference = c10::InferenceMode::is_enabled();
        std::thread producer([&] {
          const c10::InferenceMode inferenceMode(inference);
          const at::AutoGradMode mode(grad);
          for (int i = 0; i < kCallsEach; ++i) {
            between[i] = first(arguments[i]);
            done = i + 1;
          }
        });
        for (int i = 0; i < kCallsEach; ++i) {
          while (done <= i)
            std::this_thread::yield();
          results.push_back(second(between[i]));
        }
        producer.join();
        run.see("y", results);
      },
      3);
}

TRAP(Thread, CompiledOnAThreadInsideACall) {
  run.needsHost();
  auto inner = run.compile([](Tensor x) { return x.exp() * 2; });
  auto f = run.compile([inner](Tensor x) {
    Tensor y = x * 2, z;
    y.const_data_ptr<float>(); // settles it
    std::thread([&] {
      const at::NoGradGuard noGrad;
      z = inner(y);
    }).join();
    return y + z;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

// Documented: another thread sees a tensor of the program without the writes that the call has not run yet.
TRAP(Thread, OtherThreadReadsStateWithPendingWrite) {
  run.needsHost();
  Tensor w = torch::zeros({1});
  run.watch("w", w);
  auto f = run.compile([w](Tensor x) {
    w.add_(1);
    float seen = -1;
    std::thread([&] { seen = *w.const_data_ptr<float>(); }).join();
    return std::pair<double, Tensor>(seen, x * 2);
  });
  run.calls([&](int call) {
    auto [seen, y] = f(run.randn({3}));
    run.see("right", seen == call || (run.replays() && seen == call - 1));
    run.see("y", y);
  });
}

} // namespace graphopt::soundness
