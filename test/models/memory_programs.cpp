// Programs whose point is memory: who owns it, who sees it, who wrote it.
#include "models.h"

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

namespace graphopt::testmodels {

namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;
using Body = std::function<Tensors(Tensors)>;

/// State tensors are made anew for each instance, so that runs cannot see each other.
ModelCase program(
    std::string name, std::function<Tensors()> inputs, std::function<Tensors(Tensors, Tensors)> body,
    std::function<Tensors()> state = [] { return Tensors{}; }) {
  auto make = [=] {
    torch::manual_seed(7);
    Tensors held = state();
    corpus::Instance instance;
    for (const Tensor &input : inputs())
      instance.args.emplace_back(input);
    auto call = [=](std::vector<c10::IValue> args) -> c10::IValue {
      Tensors x;
      for (const c10::IValue &arg : args)
        x.push_back(arg.toTensor());
      return c10::IValue(body(x, held));
    };
    auto named = [=] {
      std::vector<capture::NamedTensor> all;
      for (size_t i = 0; i < held.size(); ++i)
        all.push_back({"w" + std::to_string(i), held[i], true});
      return all;
    };
    instance.program = capture::functionProgram("program", call, named);
    return instance;
  };
  return {std::move(name), make};
}

ModelCase unary(std::string name, std::function<Tensors(Tensor)> body) {
  return program(
      std::move(name), [] { return Tensors{torch::randn({4, 6})}; },
      [=](Tensors x, Tensors) { return body(x[0]); });
}

std::function<Tensors()> one(std::vector<int64_t> shape) {
  return [=] { return Tensors{torch::randn(shape)}; };
}

std::vector<ModelCase> aliasingOutputs() {
  return {
      unary("inputReturned", [](Tensor x) { return Tensors{x}; }),
      unary("sameOutputTwice",
            [](Tensor x) {
              Tensor y = x.exp();
              return Tensors{y, y};
            }),
      unary("viewOfInputReturned", [](Tensor x) { return Tensors{x.t(), x.select(0, 1), x.view({2, 12})}; }),
      unary("viewOfResultReturned",
            [](Tensor x) {
              Tensor y = x * 2;
              return Tensors{y, y.t(), y.slice(1, 2)};
            }),
      unary("viewOfWrittenInputReturned",
            [](Tensor x) {
              Tensor v = x.slice(1, 1, 3);
              v.mul_(3);
              return Tensors{v, x.t()};
            }),
      program(
          "parameterReturned", one({4}),
          [](Tensors x, Tensors w) { return Tensors{w[0], x[0] + w[0], w[0].view({2, 2})}; }, one({4})),
      program(
          "parameterWritten", one({4}),
          [](Tensors x, Tensors w) {
            w[0].add_(x[0]);
            return Tensors{w[0] * 2};
          },
          one({4})),
      program(
          "parameterViewWritten", one({4}),
          [](Tensors x, Tensors w) {
            w[0].view({2, 2}).t().add_(x[0].view({2, 2}));
            return Tensors{w[0].sum()};
          },
          one({4})),
      program(
          "tiedState", one({4, 4}), [](Tensors x, Tensors w) { return Tensors{x[0].mm(w[0]).mm(w[1].t())}; },
          [] {
            Tensor w = torch::randn({4, 4});
            return Tensors{w, w};
          }),
      program(
          "sameTensorTwice",
          [] {
            Tensor x = torch::randn({3});
            return Tensors{x, x};
          },
          [](Tensors x, Tensors) { return Tensors{x[0] + x[1]}; }),
      program(
          "overlappingInputsOnlyRead",
          [] {
            Tensor x = torch::randn({4, 6});
            return Tensors{x, x.slice(0, 1)};
          },
          [](Tensors x, Tensors) { return Tensors{x[0].sum() + x[1].sum(), x[1].t()}; }),
  };
}

std::vector<ModelCase> writes() {
  return {
      unary("inputWritten",
            [](Tensor x) {
              x.add_(1);
              return Tensors{x * 2};
            }),
      unary("inputWrittenTwiceAndRead",
            [](Tensor x) {
              Tensor a = x.exp();
              x.mul_(2);
              Tensor b = x + a;
              x.sub_(b);
              return Tensors{x, a, b};
            }),
      unary("sliceWritten",
            [](Tensor x) {
              Tensor y = x.clone();
              y.slice(1, 0, 2).fill_(7);
              y[1].zero_();
              return Tensors{y};
            }),
      unary("writeThroughChainOfViews",
            [](Tensor x) {
              Tensor y = x.clone();
              y.t().slice(0, 1, 5).view({2, 2, 4}).select(1, 0).mul_(-1);
              return Tensors{y};
            }),
      unary("staleAliasReadAfterWrite",
            [](Tensor x) {
              Tensor y = x.clone(), v = y.select(1, 2), w = y.t();
              y.add_(1);
              Tensor s = v.sum() + w.sum();
              v.zero_();
              return Tensors{s, w.contiguous(), y};
            }),
      unary("rowFromOtherRow",
            [](Tensor x) {
              Tensor y = x.clone();
              y[0] += y[1];
              y.copy_(y.flip(1));
              return Tensors{y};
            }),
      unary("chunkWritten",
            [](Tensor x) {
              Tensor y = x.clone();
              auto parts = y.chunk(3, 1);
              parts[1].mul_(2);
              parts[2].copy_(parts[0]);
              return Tensors{y, parts[1]};
            }),
      unary("unbindWritten",
            [](Tensor x) {
              Tensor y = x.clone();
              for (auto &row : y.unbind(0))
                row.div_(row.sum());
              return Tensors{y};
            }),
      unary("indexPut",
            [](Tensor x) {
              Tensor y = x.clone();
              y.index_put_({torch::tensor({0, 2})}, torch::zeros({6}));
              y.masked_fill_(y > 1, 0.5);
              return Tensors{y};
            }),
      unary("outVariant",
            [](Tensor x) {
              Tensor y = torch::empty_like(x);
              at::mul_out(y, x, x);
              return Tensors{y};
            }),
      unary("foreach",
            [](Tensor x) {
              Tensor a = x.clone(), b = x * 2;
              at::_foreach_mul_({a, b}, 0.5);
              at::_foreach_add_({a, b}, {b, x});
              return Tensors{a, b};
            }),
      unary("activationInPlace",
            [](Tensor x) {
              Tensor y = x * 2;
              torch::relu_(y);
              torch::sigmoid_(y);
              return Tensors{torch::leaky_relu_(y)};
            }),
      unary("randomInPlace",
            [](Tensor x) {
              Tensor y = torch::empty_like(x).uniform_();
              y.bernoulli_(0.3);
              return Tensors{x * y, torch::randn_like(x)};
            }),
      unary("metadataInPlace",
            [](Tensor x) {
              Tensor y = x.clone();
              y.t_();
              y.unsqueeze_(0);
              y.squeeze_();
              y.transpose_(0, 1);
              return Tensors{y, y.sum(0)};
            }),
      unary("promotingInPlace",
            [](Tensor x) {
              Tensor y = x.clone();
              y.add_(torch::ones({6}, torch::kDouble));
              return Tensors{y};
            }),
      unary("transposedWritten",
            [](Tensor x) {
              Tensor y = x.t().contiguous().t();
              y.mul_(2).add_(1);
              return Tensors{y};
            }),
      unary("gappyViewWritten",
            [](Tensor x) {
              Tensor y = torch::zeros({4, 12});
              y.slice(1, 0, 12, 2).copy_(x);
              return Tensors{y, y.slice(1, 0, 12, 2).mul_(2)};
            }),
      unary("preallocatedCache",
            [](Tensor x) {
              Tensor cache = torch::zeros({8, 6});
              cache.narrow(0, 2, 4).copy_(x);
              return Tensors{cache.narrow(0, 0, 6).mm(x.t())};
            }),
  };
}

std::vector<ModelCase> hostData() {
  return {
      unary("tensorFromList",
            [](Tensor x) { return Tensors{x * torch::tensor({1.f, 2.f, 3.f, 4.f, 5.f, 6.f})}; }),
      unary("tensorFromVector",
            [](Tensor x) {
              std::vector<float> v(6, 2.5f);
              return Tensors{x * torch::tensor(v)};
            }),
      unary("scalarTensor",
            [](Tensor x) { return Tensors{x + torch::tensor(3), x * torch::scalar_tensor(0.5)}; }),
      unary("fromBlobOfLocal",
            [](Tensor x) {
              float v[6] = {1, 2, 3, 4, 5, 6};
              Tensor t = torch::from_blob(v, {6}).to(torch::kDouble);
              v[0] = 100;
              return Tensors{x * t};
            }),
      unary("arange", [](Tensor x) { return Tensors{x * torch::arange(6) + torch::linspace(0, 1, 6)}; }),
      unary("indexing",
            [](Tensor x) {
              using namespace torch::indexing;
              return Tensors{x.index({Slice(), 1}), x.index({torch::tensor({2, 0})}),
                             x.index({"...", Slice(None, None, 2)})};
            }),
      unary("freedAddressesReused",
            [](Tensor x) {
              for (int i = 0; i < 20; ++i) {
                Tensor t = x * i;
                x = t.sum(0, true) + t * 0.1;
              }
              return Tensors{x};
            }),
      unary("gradModeChanges",
            [](Tensor x) {
              Tensor y = x * 2;
              {
                torch::NoGradGuard g;
                y = y + 1;
              }
              {
                torch::AutoGradMode g(true);
                y = y * x;
              }
              return Tensors{y};
            }),
      unary("autocastRegion",
            [](Tensor x) {
              Tensor w = torch::ones({6, 3});
              at::autocast::set_autocast_enabled(at::kCPU, true);
              Tensor y = x.mm(w);
              at::autocast::set_autocast_enabled(at::kCPU, false);
              return Tensors{y, y.to(torch::kFloat) + 1};
            }),
      unary("complexViews",
            [](Tensor x) {
              Tensor z = torch::view_as_complex(x.view({4, 3, 2}));
              return Tensors{z.conj() * z, torch::view_as_real(z * 2), torch::real(z)};
            }),
  };
}

} // namespace

std::vector<ModelCase> memoryPrograms() {
  std::vector<ModelCase> all = aliasingOutputs();
  for (auto part : {writes(), hostData()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

} // namespace graphopt::testmodels
