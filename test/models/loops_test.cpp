// Training loops as programs have them: the loop is ordinary code around a model, compiled or not, and
// everything it makes is the same bit for bit, step after step. Each test says what has to have run through
// compiled backwards.
#include "loop.h"

#include <ATen/autocast_mode.h>

#include <utility>

namespace {

using namespace loops;
namespace nn = torch::nn;

struct Mlp : nn::Module {
  nn::Linear first{6, 16}, second{16, 3};
  Mlp() {
    register_module("first", first);
    register_module("second", second);
  }
  Tensor forward(const Tensor &x) { return second(torch::gelu(first(x))); }
};

/// Batch norm and dropout: what train() and eval() decide.
struct ConvNet : nn::Module {
  nn::Conv2d conv{nn::Conv2dOptions(3, 8, 3).padding(1)};
  nn::BatchNorm2d norm{8};
  nn::Dropout dropout{0.3};
  nn::Linear head{8, 4};
  ConvNet() {
    register_module("conv", conv);
    register_module("norm", norm);
    register_module("dropout", dropout);
    register_module("head", head);
  }
  Tensor forward(const Tensor &x) { return head(dropout(torch::relu(norm(conv(x))).mean({2, 3}))); }
};

Tensor classLoss(const Tensor &y) {
  return torch::cross_entropy_loss(y, torch::arange(y.size(0)).remainder(y.size(1)));
}

// ---- loss

/// Two losses; each one's share of their sum, as the host reads it, is the other's weight.
struct TwoTasks : nn::Module {
  nn::Linear body{6, 16}, left{16, 3}, right{16, 2};
  TwoTasks() {
    register_module("body", body);
    register_module("left", left);
    register_module("right", right);
  }
  std::pair<Tensor, Tensor> losses(const Tensor &x) {
    const Tensor h = torch::tanh(body(x));
    return {left(h).pow(2).mean(), (right(h) - 1).abs().mean()};
  }
  Tensor forward(const Tensor &x) {
    const auto [a, b] = losses(x);
    const double sum = a.item<double>() + b.item<double>();
    return a * (b.item<double>() / sum) + b * (a.item<double>() / sum);
  }
};

TEST(Loops, lossWeightsThatTheHostReadsFromTheLosses) {
  expectAsEager<TwoTasks>(
      [](TwoTasks &model, const Forward &forward, Notes &notes) {
        trainPlainly(model, notes, [&](int step) { return forward(batch(step, {5, 6})); });
      },
      {.compiledRuns = kSteps - 3, .others = {"numbers differ from the recorded ones"}});
}

/// The same, while a local of the function still holds what the losses are computed from: the segment before
/// the read has a result then that others are computed from.
struct TwoTasksInOneFunction : TwoTasks {
  Tensor forward(const Tensor &x) {
    const Tensor h = torch::tanh(body(x)), a = left(h).pow(2).mean(), b = (right(h) - 1).abs().mean();
    return a.item<double>() > b.item<double>() ? a + 0.5 * b : 0.5 * a + b;
  }
};

TEST(Loops, aLocalThatLivesWhereTheHostReads) {
  expectAsEager<TwoTasksInOneFunction>(
      [](TwoTasksInOneFunction &model, const Forward &forward, Notes &notes) {
        trainPlainly(model, notes, [&](int step) { return forward(batch(step, {5, 6})); });
      },
      {.compiledRuns = kSteps - 3});
}

TEST(Loops, oneOfTwoLossesByWhatTheHostReads) {
  expectAsEager<Mlp>(
      [](Mlp &model, const Forward &forward, Notes &notes) {
        trainPlainly(model, notes, [&](int step) {
          const Tensor y = forward(batch(step, {5, 6})), square = y.pow(2).mean();
          return square.item<double>() > 0.1 ? square : y.abs().sum();
        });
      },
      {.compiledRuns = kSteps - 3});
}

// ---- modes

TEST(Loops, batchNormWarmedUpWithoutGradients) {
  expectAsEager<ConvNet>(
      [](ConvNet &model, const Forward &forward, Notes &notes) {
        for (int step = 0; step < 5; ++step) {
          const torch::NoGradGuard noGrad;
          notes.add("warm-up", forward(batch(100 + step, {4, 3, 6, 6})));
        }
        notes.addModel(-1, model);
        trainPlainly(model, notes, [&](int step) { return classLoss(forward(batch(step, {4, 3, 6, 6}))); });
      },
      {.compiledRuns = kSteps - 3});
}

TEST(Loops, evaluationBetweenSteps) {
  expectAsEager<ConvNet>(
      [](ConvNet &model, const Forward &forward, Notes &notes) {
        torch::optim::SGD sgd(model.parameters(), torch::optim::SGDOptions(0.1));
        for (int step = 0; step < kSteps; ++step) {
          model.train();
          sgd.zero_grad();
          classLoss(forward(batch(step, {4, 3, 6, 6}))).backward();
          sgd.step();
          model.eval();
          const torch::NoGradGuard noGrad;
          notes.add("evaluation", forward(batch(77, {4, 3, 6, 6})));
          notes.addModel(step, model);
        }
      },
      {.compiledRuns = kSteps - 3});
}

/// A gradient is asked for in eval mode too: saliency, adversarial examples.
TEST(Loops, gradientsOfTheInputInEvalMode) {
  expectAsEager<ConvNet>(
      [](ConvNet &model, const Forward &forward, Notes &notes) {
        torch::optim::SGD sgd(model.parameters(), torch::optim::SGDOptions(0.1));
        for (int step = 0; step < kSteps; ++step) {
          model.eval();
          Tensor x = batch(step, {4, 3, 6, 6}).requires_grad_();
          const Tensor slope = torch::autograd::grad({classLoss(forward(x))}, {x})[0];
          model.train();
          sgd.zero_grad();
          classLoss(forward(x.detach() + 0.1 * slope.sign())).backward();
          sgd.step();
          notes.add("slope", slope);
          notes.addModel(step, model);
        }
      },
      {.compiledRuns = 2 * (kSteps - 3)});
}

// ---- gradients

TEST(Loops, gradientsAccumulatedOverMicroBatches) {
  expectAsEager<ConvNet>(
      [](ConvNet &model, const Forward &forward, Notes &notes) {
        constexpr int kMicro = 3;
        torch::optim::SGD sgd(model.parameters(), torch::optim::SGDOptions(0.1));
        for (int step = 0; step < kSteps; ++step) {
          sgd.zero_grad();
          for (int i = 0; i < kMicro; ++i)
            (classLoss(forward(batch(kMicro * step + i, {4, 3, 6, 6}))) / kMicro).backward();
          sgd.step();
          notes.addModel(step, model);
        }
      },
      {.compiledRuns = 3 * kSteps - 3});
}

TEST(Loops, gradientsClippedByNorm) {
  expectAsEager<Mlp>(
      [](Mlp &model, const Forward &forward, Notes &notes) {
        torch::optim::SGD sgd(model.parameters(), torch::optim::SGDOptions(0.5).momentum(0.9).nesterov(true));
        for (int step = 0; step < kSteps; ++step) {
          sgd.zero_grad(/*set_to_none=*/false);
          (100 * forward(batch(step, {5, 6})).pow(2).mean()).backward();
          const double norm = nn::utils::clip_grad_norm_(model.parameters(), 0.5);
          sgd.step();
          notes.add("norm", torch::tensor(norm, torch::kDouble));
          notes.addModel(step, model);
        }
      },
      {.compiledRuns = kSteps - 3});
}

TEST(Loops, learningRatesOfAScheduleWithWeightDecay) {
  expectAsEager<Mlp>(
      [](Mlp &model, const Forward &forward, Notes &notes) {
        torch::optim::AdamW adam(model.parameters(), torch::optim::AdamWOptions(0.05).weight_decay(0.1));
        torch::optim::StepLR schedule(adam, /*step_size=*/2, /*gamma=*/0.5);
        for (int step = 0; step < kSteps; ++step) {
          adam.zero_grad();
          forward(batch(step, {5, 6})).pow(2).mean().backward();
          adam.step();
          schedule.step();
          notes.addModel(step, model);
        }
      },
      {.compiledRuns = kSteps - 3});
}

/// Layers are frozen midway, and thawed again.
TEST(Loops, layersFrozenForAWhile) {
  expectAsEager<Mlp>(
      [](Mlp &model, const Forward &forward, Notes &notes) {
        const auto lossOf = [&](int step) {
          const bool isFrozen = step >= kSteps && step < 2 * kSteps;
          for (Tensor &parameter : model.first->parameters())
            parameter.set_requires_grad(!isFrozen);
          return forward(batch(step, {5, 6})).pow(2).mean();
        };
        trainPlainly(model, notes, lossOf, 3 * kSteps);
      },
      {.compiledRuns = 3 * kSteps - 6});
}

// ---- recomputation

/// Runs a block without keeping what it made, and once more in the backward.
struct Recomputed : torch::autograd::Function<Recomputed> {
  static Tensor forward(torch::autograd::AutogradContext *context, const Tensor &x, int64_t block) {
    context->save_for_backward({x});
    context->saved_data["block"] = block;
    return run(block, x);
  }
  static Tensors backward(torch::autograd::AutogradContext *context, Tensors gradients) {
    const at::AutoGradMode grad(true);
    const Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    torch::autograd::backward({run(context->saved_data["block"].toInt(), x)}, {gradients[0]});
    return {x.grad(), Tensor()};
  }
  static Tensor run(int64_t block, const Tensor &x) {
    return (*reinterpret_cast<nn::Sequential *>(block))->forward(x); // NOLINT: the model outlives its graphs
  }
};

struct Checkpointed : nn::Module {
  nn::Linear first{6, 12}, last{12, 3};
  nn::Sequential block{nn::Linear(12, 24), nn::Tanh(), nn::Linear(24, 12)};
  Checkpointed() {
    register_module("first", first);
    register_module("block", block);
    register_module("last", last);
  }
  Tensor forward(const Tensor &x) {
    const Tensor h = torch::relu(first(x));
    return last(h + Recomputed::apply(h, reinterpret_cast<int64_t>(&block)));
  }
};

TEST(Loops, aBlockThatRunsAgainInTheBackward) {
  expectAsEager<Checkpointed>(
      [](Checkpointed &model, const Forward &forward, Notes &notes) {
        trainPlainly(model, notes, [&](int step) { return forward(batch(step, {5, 6})).pow(2).mean(); });
      },
      {.compiledRuns = kSteps - 3});
}

// ---- mixed precision, state

/// Autocast of the CPU, on or off, for a scope.
class Autocast {
public:
  explicit Autocast(bool on) : before_(at::autocast::is_autocast_enabled(at::kCPU)) {
    at::autocast::increment_nesting();
    at::autocast::set_autocast_enabled(at::kCPU, on);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  }
  ~Autocast() {
    at::autocast::set_autocast_enabled(at::kCPU, before_);
    if (at::autocast::decrement_nesting() == 0)
      at::autocast::clear_cache();
  }
  Autocast(const Autocast &) = delete;
  Autocast &operator=(const Autocast &) = delete;

private:
  const bool before_;
};

/// An LSTM in low precision, its head in full.
struct Island : nn::Module {
  nn::LSTM lstm{nn::LSTMOptions(6, 10).batch_first(true)};
  nn::Linear gate{10, 10}, head{10, 3};
  Island() {
    register_module("lstm", lstm);
    register_module("gate", gate);
    register_module("head", head);
  }
  Tensor forward(const Tensor &x) {
    const Autocast low(true);
    const Tensor h = torch::sigmoid(gate(std::get<0>(lstm(x))));
    const Autocast full(false);
    return head(h.to(at::kFloat)).logsumexp(-1);
  }
};

TEST(Loops, anLstmUnderAutocastWithAnIslandInFullPrecision) {
  expectAsEager<Island>(
      [](Island &model, const Forward &forward, Notes &notes) {
        trainPlainly(model, notes, [&](int step) { return forward(batch(step, {2, 5, 6})).pow(2).mean(); });
      },
      {.compiledRuns = kSteps - 3});
}

/// A state that lives between calls, cut from its history at each step.
struct Stateful : nn::Module {
  nn::GRUCell cell{6, 8};
  nn::Linear head{8, 3};
  Tensor state = torch::zeros({4, 8});
  Stateful() {
    register_module("cell", cell);
    register_module("head", head);
  }
  Tensor forward(const Tensor &x) {
    state = cell(x, state.detach());
    return head(state);
  }
};

TEST(Loops, aStateCarriedFromStepToStep) {
  expectAsEager<Stateful>(
      [](Stateful &model, const Forward &forward, Notes &notes) {
        torch::optim::Adam adam(model.parameters(), torch::optim::AdamOptions(0.01));
        for (int step = 0; step < kSteps; ++step) {
          adam.zero_grad();
          forward(batch(step, {4, 6})).pow(2).mean().backward();
          adam.step();
          notes.add("state", model.state);
          notes.addModel(step, model);
        }
      },
      {.compiledRuns = kSteps - 4});
}

} // namespace
