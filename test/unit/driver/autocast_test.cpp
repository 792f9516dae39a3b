// Segments under autocast run as plans, and share casts of weights with everything else in the region:
// results and gradients are eager's, bit for bit, whatever the region looks like.
#include <graphopt/graphopt.h>

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <functional>

namespace {

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

bool sameBits(const Tensor &a, const Tensor &b) {
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
graphopt::Explanation expectAsEager(const Program &program) {
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

void expectCompiledAsEager(const Program &program) {
  const graphopt::Explanation explanation = expectAsEager(program);
  EXPECT_GT(explanation.compiledRuns, 0u) << explanation;
  EXPECT_TRUE(explanation.notCompiled.empty()) << explanation;
}

constexpr int kSteps = 8;

Tensor input(at::IntArrayRef sizes = {4, 6}) { return torch::randn(sizes); }

TEST(Autocast, aWeightUsedTwice) {
  expectCompiledAsEager([](Scene &run) {
    const Tensor w = Scene::weight({6, 6}), b = Scene::weight({6});
    const Body f = run.compile([=](const Tensor &x) {
      const Tensor h = at::linear(x, w, b).tanh();
      return at::linear(at::linear(h, w, b).relu(), w);
    });
    for (int i = 0; i < kSteps; ++i) {
      const Region region;
      const Tensor y = f(input());
      run.see(y);
      y.pow(2).sum().backward();
      run.step({w, b});
    }
  });
}

TEST(Autocast, withoutItsCache) {
  expectCompiledAsEager([](Scene &run) {
    const NoCache noCache;
    const Tensor w = Scene::weight({6, 6});
    const Body f =
        run.compile([=](const Tensor &x) { return at::linear(at::linear(x, w).relu(), w).pow(2).sum(); });
    for (int i = 0; i < kSteps; ++i) {
      const Region region;
      f(input()).backward();
      run.step({w});
    }
  });
}

TEST(Autocast, aWeightUsedCastAndAsItIs) {
  expectCompiledAsEager([](Scene &run) {
    const Tensor table = Scene::weight({11, 6});
    const Body f = run.compile([=](const Tensor &tokens) {
      return at::linear(at::embedding(table, tokens).tanh(), table).log_softmax(1).select(1, 3).sum();
    });
    for (int i = 0; i < kSteps; ++i) {
      const Tensor tokens = torch::randint(11, {5});
      {
        const Region region;
        f(tokens).backward();
      }
      run.step({table});
    }
  });
}

/// Autograd adds the gradients of a weight in the order in which their nodes were made, the cast's among
/// them.
TEST(Autocast, aWeightUsedAsItIsBeforeItIsCast) {
  expectAsEager([](Scene &run) {
    const Tensor table = Scene::weight({11, 6});
    const Body f = run.compile([=](const Tensor &tokens) {
      const Tensor a = at::embedding(table, tokens), b = at::embedding(table, tokens.flip(0)).tanh();
      return at::linear(a * b + b, table).log_softmax(1).select(1, 3).sum();
    });
    for (int i = 0; i < kSteps; ++i) {
      const Tensor tokens = torch::randint(11, {5});
      {
        const Region region;
        f(tokens).backward();
      }
      run.step({table});
    }
  });
}

TEST(Autocast, microBatchesInOneRegion) {
  expectCompiledAsEager([](Scene &run) {
    const Tensor w = Scene::weight({6, 6}), v = Scene::weight({6, 3});
    const Body f =
        run.compile([=](const Tensor &x) { return at::mm(at::mm(at::mm(x, w).relu(), w).tanh(), v); });
    for (int i = 0; i < kSteps; ++i) {
      Tensor loss;
      {
        const Region region;
        const Tensor a = f(input()), b = f(input()), c = f(input());
        loss = a.sum() + b.pow(2).sum() + (c * a).mean();
      }
      loss.backward();
      run.step({w, v});
    }
  });
}

TEST(Autocast, aRegionInsideTheCallable) {
  expectCompiledAsEager([](Scene &run) {
    const Tensor w = Scene::weight({6, 6});
    const Body f = run.compile([=](const Tensor &x) {
      Tensor y;
      {
        const Region region;
        y = at::linear(at::linear(x, w).relu(), w);
      }
      return y.to(at::kFloat).exp().mean();
    });
    for (int i = 0; i < kSteps; ++i) {
      f(input()).backward();
      run.step({w});
    }
  });
}

/// The first region's casts are gone when the second begins: a gradient for each.
TEST(Autocast, twoRegionsInOneCall) {
  expectCompiledAsEager([](Scene &run) {
    const Tensor w = Scene::weight({6, 6});
    const Body f = run.compile([=](const Tensor &x) {
      Tensor y, z;
      {
        const Region region;
        y = at::linear(at::linear(x, w).relu(), w);
      }
      {
        const Region region;
        z = at::linear(at::linear(y, w).relu(), w);
      }
      return z.pow(2).mean();
    });
    for (int i = 0; i < kSteps; ++i) {
      f(input()).backward();
      run.step({w});
    }
  });
}

/// The second segment runs when the region has ended, and has the cast that the first one made.
TEST(Autocast, aRegionOfTwoSegments) {
  EXPECT_GT(expectAsEager([](Scene &run) {
              const Tensor w = Scene::weight({6, 6});
              const Body f = run.compile([=](const Tensor &x) {
                Tensor y;
                {
                  const Region region;
                  y = at::linear(x, w).relu();
                  if (y.sum().item<float>() < -1e6)
                    return y;
                  y = at::linear(y, w);
                }
                return y.to(at::kFloat).pow(2).mean();
              });
              for (int i = 0; i < kSteps; ++i) {
                f(input()).backward();
                run.step({w});
              }
            }).compiledRuns,
            0u);
}

TEST(Autocast, anIslandWithoutIt) {
  expectCompiledAsEager([](Scene &run) {
    const Tensor w = Scene::weight({6, 6});
    const Body f = run.compile([=](const Tensor &x) {
      Tensor y = at::linear(x, w);
      {
        const Region island(false);
        y = at::linear(y.to(at::kFloat), w).softmax(1);
      }
      return at::linear(y, w).pow(2).mean();
    });
    for (int i = 0; i < kSteps; ++i) {
      const Region region;
      f(input()).backward();
      run.step({w});
    }
  });
}

TEST(Autocast, anLstmCellInALoop) {
  expectCompiledAsEager([](Scene &run) {
    torch::nn::LSTMCell cell(6, 5);
    const Body f = run.compile([=](const Tensor &x) mutable {
      auto state = std::tuple(torch::zeros({4, 5}), torch::zeros({4, 5}));
      for (int t = 0; t < 3; ++t)
        state = cell->forward(x.select(0, t), state);
      return std::get<0>(state).pow(2).sum();
    });
    for (int i = 0; i < kSteps; ++i) {
      const Region region;
      f(input({3, 4, 6})).backward();
      run.step(cell->parameters());
    }
  });
}

TEST(Autocast, aGruCellInALoop) {
  expectCompiledAsEager([](Scene &run) {
    torch::nn::GRUCell cell(6, 5);
    const Body f = run.compile([=](const Tensor &x) mutable {
      Tensor state = torch::zeros({4, 5});
      for (int t = 0; t < 3; ++t)
        state = cell->forward(x.select(0, t), state);
      return state.pow(2).sum();
    });
    for (int i = 0; i < kSteps; ++i) {
      const Region region;
      f(input({3, 4, 6})).backward();
      run.step(cell->parameters());
    }
  });
}

TEST(Autocast, aNetworkOfModules) {
  expectCompiledAsEager([](Scene &run) {
    torch::nn::Sequential net(
        torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1)), torch::nn::BatchNorm2d(8),
        torch::nn::ReLU(), torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 8, 3).stride(2)), torch::nn::ReLU(),
        torch::nn::AdaptiveAvgPool2d(1), torch::nn::Flatten(), torch::nn::Linear(8, 10));
    const Body f = run.compile([=](const Tensor &x) mutable { return net->forward(x); });
    for (int i = 0; i < kSteps; ++i) {
      const Region region;
      const Tensor y = f(input({2, 3, 9, 9}));
      run.see(y);
      torch::cross_entropy_loss(y, torch::tensor({1, 7})).backward();
      run.step(net->parameters());
    }
  });
}

/// A cast first made without gradients is kept for the uses that want some.
TEST(Autocast, aWarmUpWithoutGradientsInTheSameRegion) {
  for (const bool always : {true, false})
    expectAsEager([=](Scene &run) {
      const Tensor w = Scene::weight({6, 6}), v = Scene::weight({6});
      const Body f = run.compile([=](const Tensor &x) { return (at::linear(x, w) * v).pow(2).mean(); });
      for (int i = 0; i < 2 * kSteps; ++i) {
        const Region region;
        if (always || i % 3 == 0) {
          const at::NoGradGuard noGrad;
          run.see(f(input()));
        }
        const Tensor y = f(input());
        run.see(y);
        y.backward();
        run.step({w, v});
      }
    });
}

/// All results follow from whether casts have a history.
TEST(Autocast, resultsThatRequireGradientsNowAndThen) {
  expectAsEager([](Scene &run) {
    const Tensor w = Scene::weight({6, 6});
    const Body f = run.compile([=](const Tensor &x) { return at::linear(x, w).pow(2).mean(); });
    for (int i = 0; i < 2 * kSteps; ++i) {
      const Region region;
      if (i % 3 == 0) {
        const at::NoGradGuard noGrad;
        run.see(f(input()));
      }
      const Tensor y = f(input());
      run.see(y);
      if (y.requires_grad())
        y.backward();
      run.step({w});
    }
  });
}

/// A kept cast does not follow its weight.
TEST(Autocast, stepsInsideOneRegion) {
  expectCompiledAsEager([](Scene &run) {
    const Tensor w = Scene::weight({6, 6});
    const Body f = run.compile([=](const Tensor &x) { return at::linear(x, w).relu().pow(2).mean(); });
    const Region region;
    for (int i = 0; i < kSteps; ++i) {
      const Tensor y = f(input());
      run.see(y);
      y.backward({}, /*retain_graph=*/true);
      run.step({w});
    }
  });
}

TEST(Autocast, aWeightWrittenBeforeItIsCast) {
  expectAsEager([](Scene &run) {
    const Tensor w = Scene::weight({6, 6});
    const Body f = run.compile([=](const Tensor &x) {
      {
        const at::NoGradGuard noGrad;
        w.mul_(1.25);
      }
      return at::linear(x, w).pow(2).mean();
    });
    for (int i = 0; i < kSteps; ++i) {
      const Region region;
      const Tensor y = f(input());
      run.see(y);
      y.backward();
      run.step({w});
    }
  });
}

/// Of a tensor that is no leaf autocast keeps no cast.
TEST(Autocast, whatIsNoWeight) {
  expectAsEager([](Scene &run) {
    const Tensor w = Scene::weight({6, 6});
    const std::shared_ptr<Tensor> given = std::make_shared<Tensor>(w);
    const Body f =
        run.compile([=](const Tensor &x) { return at::linear(at::linear(x, *given), *given).pow(2).mean(); });
    for (int i = 0; i < 3 * kSteps; ++i) {
      *given = i % 3 == 0 ? w : i % 3 == 1 ? w * 1.5 : w.view({36}).view({6, 6});
      const Region region;
      const Tensor y = f(input());
      run.see(y);
      y.backward();
      run.step({w});
    }
  });
}

TEST(Autocast, gradientsOfGradients) {
  expectCompiledAsEager([](Scene &run) {
    const Tensor w = Scene::weight({6, 6});
    const Body f = run.compile([=](const Tensor &x) { return at::linear(x, w).tanh().pow(2).sum(); });
    for (int i = 0; i < kSteps; ++i) {
      Tensor y;
      {
        const Region region;
        y = f(input());
      }
      const Tensor g = torch::autograd::grad({y}, {w}, {}, true, /*create_graph=*/true)[0];
      run.see(g);
      g.pow(2).sum().backward();
      run.step({w});
    }
  });
}

TEST(Autocast, gradientsThatAccumulateOverRegions) {
  expectCompiledAsEager([](Scene &run) {
    const Tensor w = Scene::weight({6, 6}), b = Scene::weight({6});
    const Body f = run.compile([=](const Tensor &x) { return at::gelu(at::addmm(b, x, w)).mean(); });
    for (int i = 0; i < kSteps; ++i) {
      for (int j = 0; j < 3; ++j) {
        const Region region;
        f(input()).backward();
      }
      run.step({w, b});
    }
  });
}

/// Autograd's nodes run under the autocast of whoever calls backward(), and attention with dropout computes
/// in f32 inside: under autocast its backward is another one.
TEST(Autocast, backwardInsideAndOutsideOfTheRegion) {
  for (const int every : {1, 2, 3}) // inside: always, now and then
    expectCompiledAsEager([=](Scene &run) {
      const Tensor w = Scene::weight({6, 6});
      const Body f = run.compile([=](const Tensor &x) {
        const Tensor q = at::linear(x, w).unsqueeze(0).unsqueeze(0);
        return at::scaled_dot_product_attention(q, q, q, {}, 0.2).squeeze().pow(2).sum();
      });
      for (int i = 0; i < 2 * kSteps; ++i) {
        torch::manual_seed(i);
        Tensor loss;
        {
          const Region region;
          loss = f(input());
          if (i % every == 0)
            loss.backward();
        }
        if (i % every != 0)
          loss.backward();
        run.step({w});
      }
    });
}

/// The same of a segment that cannot run again: the plan has to be the right one.
TEST(Autocast, backwardInsideOfTheRegionOfASegmentThatWrites) {
  expectCompiledAsEager([](Scene &run) {
    torch::nn::BatchNorm1d norm(6);
    const Tensor w = Scene::weight({6, 6});
    const Body f = run.compile([=](const Tensor &x) mutable {
      const Tensor q = norm(at::linear(x, w)).unsqueeze(0).unsqueeze(0);
      return at::scaled_dot_product_attention(q, q, q, {}, 0.2).squeeze().pow(2).sum();
    });
    for (int i = 0; i < kSteps; ++i) {
      torch::manual_seed(i);
      const Region region;
      f(input()).backward();
      run.step({w});
    }
  });
}

/// Autocast for the backward alone casts its products.
TEST(Autocast, backwardAloneInARegion) {
  expectCompiledAsEager([](Scene &run) {
    const Tensor w = Scene::weight({6, 6});
    const Body f = run.compile([=](const Tensor &x) { return at::mm(at::mm(x, w).relu(), w).sum(); });
    for (int i = 0; i < 2 * kSteps; ++i) {
      const Tensor loss = f(input());
      const Region region(i % 3 != 0);
      loss.backward();
      run.step({w});
    }
  });
}

TEST(Autocast, anOperatorThatCannotBeTakenApart) {
  for (const bool inside : {false, true})
    expectAsEager([=](Scene &run) {
      const Tensor w = Scene::weight({6, 6});
      const Body f = run.compile([=](const Tensor &x) {
        return at::cumprod(at::linear(x, w), 1).to(at::kFloat).matmul(w).prod(1).sum();
      });
      for (int i = 0; i < kSteps; ++i) {
        Tensor loss;
        {
          const Region region;
          loss = f(input());
          if (inside)
            loss.backward();
        }
        if (!inside)
          loss.backward();
        run.step({w});
      }
    });
}

/// The cells of a whole sequence, in one operator that takes casts many times.
TEST(Autocast, aGruOverASequence) {
  expectAsEager([](Scene &run) {
    torch::nn::GRU gru(6, 5);
    const Body f =
        run.compile([=](const Tensor &x) mutable { return std::get<0>(gru->forward(x)).pow(2).sum(); });
    for (int i = 0; i < kSteps; ++i) {
      Tensor loss;
      {
        const Region region;
        loss = f(input({3, 4, 6})) + f(input({3, 4, 6}));
      }
      loss.backward();
      run.step(gru->parameters());
    }
  });
}

TEST(Autocast, sizesThatVary) {
  expectCompiledAsEager([](Scene &run) {
    const Tensor w = Scene::weight({6, 6}), b = Scene::weight({6});
    const Body f = run.compile(
        [=](const Tensor &x) { return at::linear(at::linear(x, w, b).relu(), w, b).pow(2).mean(); });
    for (int i = 0; i < 3 * kSteps; ++i) {
      const Region region;
      const Tensor y = f(input({2 + i % 7, 6}));
      run.see(y);
      y.backward();
      run.step({w, b});
    }
  });
}

TEST(Autocast, halfAndBFloat16) {
  expectAsEager([](Scene &run) {
    const Tensor w = Scene::weight({6, 6});
    const Body f = run.compile([=](const Tensor &x) { return at::linear(at::linear(x, w), w).mean(); });
    for (int i = 0; i < 2 * kSteps; ++i) {
      const Region region(true, i % 2 ? at::kBFloat16 : at::kHalf);
      f(input()).backward();
      run.step({w});
    }
  });
}

} // namespace
