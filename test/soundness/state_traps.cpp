// Host state that decides what a call does: members, globals, containers, files, and the modules' own
// tensors.
#include "trap.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/serialize.h>

#include <cstdlib>
#include <map>
#include <sstream>

namespace graphopt::soundness {
namespace {

using torch::nn::Linear;

struct Net : torch::nn::Module {
  Linear first{nullptr}, second{nullptr};
  Net() {
    first = register_module("first", Linear(4, 5));
    second = register_module("second", Linear(5, 3));
  }
  Tensor forward(Tensor x) { return second(torch::relu(first(x))); }
};

bool globalFlag = false;
double globalFactor = 1;

} // namespace

TRAP(State, PlainNetwork) {
  auto net = std::make_shared<Net>();
  run.watch(net);
  auto f = run.compile(net);
  run.expectSteady();
  run.calls([&](int) {
    Tensor y = f(run.in("x", run.randn({2, 4}).set_requires_grad(run.gradients())));
    run.see("y", y);
    run.backward(y);
  });
}

/// Nothing is pending when it is read, in any call.
TRAP(State, ParameterReadBeforeItsFirstUse) {
  run.needsHost();
  struct Reading : Net {
    double seen = 0;
    Tensor forward(Tensor x) {
      seen = first->weight.const_data_ptr<float>()[0];
      Tensor y = Net::forward(x);
      return seen > 100 ? y * 2 : y;
    }
  };
  auto net = std::make_shared<Reading>();
  run.watch(net);
  auto f = run.compile(net);
  run.expectSteady();
  run.calls([&](int) {
    run.see("y", f(run.randn({2, 4})));
    run.see("seen", net->seen);
  });
}

/// Size, dtype and memory of the buffer stay from call to call, but not its history.
TRAP(State, BufferThatHasAHistoryInSomeCalls) {
  struct Growing : torch::nn::Module {
    Tensor buffer, weight;
    Growing() {
      buffer = register_buffer("buffer", torch::ones({3}));
      weight = register_parameter("weight", torch::full({3}, 0.5));
      grow();
      buffer.detach_(); // has room for a history from now on
    }
    void grow() { buffer.mul_(weight); }
    Tensor forward(Tensor x) {
      Tensor y = x * buffer;
      return y.requires_grad() ? y + 2 : y - 1;
    }
  };
  auto net = std::make_shared<Growing>();
  run.watch(net);
  auto f = run.compile(net);
  run.calls([&](int call) {
    if (call % 4 == 3)
      net->grow();
    Tensor y = f(run.randn({3}));
    run.see("y", y);
    if (y.requires_grad())
      run.backward(y);
    net->buffer.detach_();
  });
}

TRAP(State, HiddenCounter) {
  struct Counting : torch::nn::Module {
    int step = 0;
    Tensor forward(Tensor x) { return ++step % 3 == 0 ? x * step : x + 1; }
  };
  auto net = std::make_shared<Counting>();
  auto f = run.compile(net);
  run.calls([&](int) {
    run.see("y", f(run.randn({2, 3})));
    run.see("step", net->step);
  });
}

TRAP(State, CounterAsScalarOperand) {
  auto f = run.compile([step = 0](Tensor x) mutable {
    step = step % 4 + 1;
    return x * step + 0.5 / step;
  });
  run.calls([&](int) { run.see("y", f(run.randn({2, 3}))); });
}

TRAP(State, GlobalFlag) {
  auto f = run.compile([](Tensor x) { return globalFlag ? x.tanh() : x.sigmoid(); });
  run.calls([&](int call) {
    globalFlag = call % 4 == 0 || call == 3;
    run.see("y", f(run.randn({3})));
  });
  globalFlag = false;
}

TRAP(State, GlobalFactor) {
  auto f = run.compile([](Tensor x) { return x * globalFactor; });
  run.calls([&](int call) {
    globalFactor = 1 + 0.25 * call;
    run.see("y", f(run.randn({3})));
  });
  globalFactor = 1;
}

TRAP(State, EnvironmentVariable) {
  auto f = run.compile([](Tensor x) {
    const char *word = std::getenv("GRAPHOPT_TRAP_WORD");
    return word && std::string(word) == "double" ? x * 2 : x;
  });
  run.calls([&](int call) {
    ::setenv("GRAPHOPT_TRAP_WORD", call % 3 ? "single" : "double", 1);
    run.see("y", f(run.randn({3})));
  });
  ::unsetenv("GRAPHOPT_TRAP_WORD");
}

TRAP(State, ConfigurationChanged) {
  struct Config {
    std::string activation = "relu";
    int layers = 1;
  };
  auto config = std::make_shared<Config>();
  auto f = run.compile([config](Tensor x) {
    for (int i = 0; i < config->layers; ++i)
      x = config->activation == "relu" ? torch::relu(x) : torch::gelu(x) + i;
    return x;
  });
  run.calls([&](int call) {
    config->activation = call < 4 ? "relu" : "gelu";
    config->layers = 1 + call / 3;
    run.see("y", f(run.randn({3})));
  });
}

TRAP(State, FunctionReplaced) {
  auto function = std::make_shared<std::function<Tensor(Tensor)>>([](Tensor x) { return x + 1; });
  auto f = run.compile([function](Tensor x) { return (*function)(x) * 2; });
  run.calls([&](int call) {
    if (call == 5)
      *function = [](Tensor x) { return x - 1; };
    run.see("y", f(run.randn({3})));
  });
}

TRAP(State, ContainerGrowsEachCall) {
  auto history = std::make_shared<std::vector<Tensor>>();
  auto f = run.compile([history](Tensor x) {
    history->push_back(x * 2);
    return torch::stack(*history).sum(0);
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
  run.see("history", *history);
}

TRAP(State, BoundedQueue) {
  auto queue = std::make_shared<std::vector<Tensor>>();
  auto f = run.compile([queue](Tensor x) {
    queue->push_back(x.exp());
    if (queue->size() > 3)
      queue->erase(queue->begin());
    return torch::cat(*queue).mean();
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(State, CachedByKey) {
  auto cache = std::make_shared<std::map<int64_t, Tensor>>();
  auto f = run.compile([cache](Tensor x, int64_t key) {
    auto [it, isNew] = cache->try_emplace(key);
    if (isNew)
      it->second = torch::arange(key + 3, at::kFloat);
    return x + it->second.sum();
  });
  run.calls([&](int call) { run.see("y", f(run.randn({3}), int64_t(call % 3))); });
}

TRAP(State, OptionalOutput) {
  auto f = run.compile([count = 0](Tensor x) mutable {
    Tensor y = x * 2;
    std::optional<Tensor> extra;
    if (++count % 3 == 0)
      extra = y.sum();
    return std::tuple<Tensor, std::optional<Tensor>>(y, extra);
  });
  run.calls([&](int) {
    auto [y, extra] = f(run.randn({3}));
    run.see("y", y);
    run.see("extra", extra);
  });
}

TRAP(State, OutputListGrows) {
  auto f = run.compile([count = 0](Tensor x) mutable {
    std::vector<Tensor> all;
    for (int i = 0; i <= count % 4; ++i)
      all.push_back(x + i);
    ++count;
    return all;
  });
  run.calls([&](int) { run.see("y", f(run.randn({3}))); });
}

TRAP(State, ParametersReplaced) {
  auto net = std::make_shared<Net>();
  run.watch(net);
  auto f = run.compile(net);
  run.calls([&](int call) {
    if (call % 3 == 0)
      net->first = net->replace_module("first", Linear(4, 5));
    if (call == 7)
      net->second->weight = torch::ones({3, 5}).set_requires_grad(run.gradients());
    Tensor y = f(run.randn({2, 4}));
    run.see("y", y);
    run.backward(y);
  });
}

TRAP(State, ParametersMovedToAnotherDtype) {
  auto net = std::make_shared<Net>();
  run.watch(net);
  auto f = run.compile(net);
  run.calls([&](int call) {
    if (run.variant() != Variant::Inference) // to() sets the data of parameters
      net->to(call % 4 < 2 ? at::kFloat : at::kDouble);
    run.see("y", f(run.randn({2, 4}).to(net->first->weight.scalar_type())));
  });
}

TRAP(State, ParametersSetData) {
  auto net = std::make_shared<Net>();
  run.watch(net);
  auto f = run.compile(net);
  run.calls([&](int call) {
    if (call % 2 == 0)
      net->first->weight.set_data(run.randn({5, 4}));
    if (call == 5)
      net->second->bias.mutable_grad() = torch::ones({3});
    Tensor y = f(run.randn({2, 4}));
    run.see("y", y);
    run.backward(y);
  });
}

TRAP(State, ParametersLoaded) {
  auto net = std::make_shared<Net>();
  std::stringstream file;
  {
    torch::serialize::OutputArchive archive;
    net->save(archive);
    archive.save_to(file);
  }
  run.watch(net);
  auto f = run.compile(net);
  run.calls([&](int call) {
    const at::NoGradGuard noGrad;
    for (Tensor &p : net->parameters())
      p.mul_(0.9);
    if (call % 4 == 0) {
      file.clear();
      file.seekg(0);
      torch::serialize::InputArchive archive;
      archive.load_from(file);
      net->load(archive);
    }
    run.see("y", f(run.randn({2, 4})));
  });
}

TRAP(State, TiedWeightsUntied) {
  struct Tied : torch::nn::Module {
    torch::nn::Embedding embedding{nullptr};
    Linear head{nullptr};
    Tied() {
      embedding = register_module("embedding", torch::nn::Embedding(7, 4));
      head = register_module("head", Linear(torch::nn::LinearOptions(4, 7).bias(false)));
      head->weight = embedding->weight;
    }
    Tensor forward(Tensor tokens) { return head(embedding(tokens)); }
  };
  auto net = std::make_shared<Tied>();
  run.watch("embedding", [=] { return net->embedding->weight; });
  run.watch("head", [=] { return net->head->weight; });
  auto f = run.compile(net);
  run.calls([&](int call) {
    if (call == 4)
      net->head->weight = net->embedding->weight.detach().clone().set_requires_grad(run.gradients());
    if (call == 8)
      net->head->weight = net->embedding->weight;
    Tensor y = f(torch::tensor({1, 3, 3, call % 7}));
    run.see("y", y);
    run.backward(y);
    const at::NoGradGuard noGrad;
    net->embedding->weight.add_(0.125);
  });
}

TRAP(State, TrainAndEval) {
  struct Norm : torch::nn::Module {
    torch::nn::BatchNorm1d norm{nullptr};
    torch::nn::Dropout dropout{nullptr};
    Norm() {
      norm = register_module("norm", torch::nn::BatchNorm1d(4));
      dropout = register_module("dropout", torch::nn::Dropout(0.5));
    }
    Tensor forward(Tensor x) { return dropout(norm(x)); }
  };
  auto net = std::make_shared<Norm>();
  run.watch(net);
  auto f = run.compile(net);
  run.calls([&](int call) {
    net->train(call % 4 != 0 && call != 7);
    Tensor y = f(run.in("x", run.randn({6, 4})));
    run.see("y", y);
    run.backward(y);
  });
}

TRAP(State, DropoutProbabilityChanged) {
  auto net = std::make_shared<torch::nn::DropoutImpl>(0.1);
  auto f = run.compile(net);
  run.calls([&](int call) {
    net->options.p(0.1 * (call % 5));
    run.see("y", f(run.randn({16})));
  });
}

TRAP(State, HiddenStateCarried) {
  auto hidden = std::make_shared<Tensor>(torch::zeros({2, 3}));
  run.watch("hidden", [hidden] { return *hidden; });
  auto f = run.compile([hidden](Tensor x) {
    *hidden = torch::tanh(*hidden + x);
    return *hidden * 2;
  });
  run.calls([&](int call) {
    if (call == 6)
      *hidden = hidden->detach();
    run.see("y", f(run.randn({2, 3})));
  });
}

TRAP(State, HiddenStateUpdatedInPlaceLater) {
  run.needsHost();
  auto hidden = std::make_shared<Tensor>();
  run.watch("hidden", [hidden] { return *hidden; });
  auto f = run.compile([hidden](Tensor x) {
    if (!hidden->defined())
      *hidden = x.detach() * 2; // it leaves the first call, and later ones write into it
    else
      hidden->mul_(0.5).add_(x.detach());
    return hidden->sum() + x;
  });
  run.calls([&](int) {
    run.see("y", f(run.randn({2, 3})));
    run.see("first", hidden->const_data_ptr<float>()[0]);
  });
}

TRAP(State, KeyValueCache) {
  auto cache = torch::zeros({8, 4});
  auto position = std::make_shared<int64_t>(0);
  run.watch("cache", cache);
  auto f = run.compile([cache, position](Tensor x) {
    cache.slice(0, *position, *position + 1).copy_(x);
    *position = (*position + 1) % 8;
    return torch::softmax(cache.slice(0, 0, *position).matmul(x.t()), 0).sum() + cache.sum();
  });
  run.calls(
      [&](int) {
        const at::NoGradGuard noGrad;
        run.see("y", f(run.randn({1, 4})));
      },
      20);
}

TRAP(State, KeyValueCacheByTensorPosition) {
  auto cache = torch::zeros({16, 4});
  run.watch("cache", cache);
  auto f = run.compile([cache](Tensor x, Tensor position) {
    cache.index_copy_(0, position, x);
    return cache.sum(0);
  });
  run.calls([&](int call) {
    const at::NoGradGuard noGrad;
    run.see("y", f(run.randn({1, 4}), torch::full({1}, int64_t(call), at::kLong)));
  });
}

TRAP(State, BuffersSwapped) {
  auto buffers = std::make_shared<std::pair<Tensor, Tensor>>(torch::zeros({3}), torch::ones({3}));
  run.watch("first", [=] { return buffers->first; });
  run.watch("second", [=] { return buffers->second; });
  auto f = run.compile([buffers](Tensor x) {
    buffers->first.add_(x);
    std::swap(buffers->first, buffers->second);
    return buffers->first * 2 + buffers->second;
  });
  run.calls([&](int) {
    const at::NoGradGuard noGrad;
    run.see("y", f(run.randn({3})));
  });
}

TRAP(State, ForgottenBetweenCalls) {
  auto f = run.compile([](Tensor x) { return x.sum().item<float>() > 0 ? x.exp() : x * 2; });
  run.calls([&](int call) {
    Tensor y = f(run.randn({3}));
    if (call % 3 == 0)
      f.reset();
    run.see("y", y);
  });
}

} // namespace graphopt::soundness
