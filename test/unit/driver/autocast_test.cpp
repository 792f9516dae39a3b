// Segments under autocast run as plans, and share casts of weights with everything else in the region:
// results and gradients are eager's, bit for bit, whatever the region looks like.
#include "autocast_scene.h"

namespace graphopt::scene {
namespace {

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
} // namespace graphopt::scene
