// Backwards of segments that ran under autocast: inside of a region, outside, several regions after, and
// twice.
#include "autocast_scene.h"

namespace graphopt::scene {
namespace {

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

/// prod is computed in f32 from a bf16 operand, and has its derivative by hand.
TEST(Autocast, productsWithAndWithoutZeros) {
  for (const double threshold : {-9.0, -0.2})
    expectCompiledAsEager([=](Scene &run) {
      const Tensor w = Scene::weight({6, 6});
      const Body f = run.compile([=](const Tensor &x) {
        const Tensor h = at::threshold(at::linear(x, w), threshold, 0);
        return h.prod(1).sum() + h.cumprod(0).sum() + h.prod();
      });
      for (int i = 0; i < kSteps; ++i) {
        Tensor loss;
        {
          const Region region;
          loss = f(input());
        }
        loss.backward();
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

} // namespace
} // namespace graphopt::scene
