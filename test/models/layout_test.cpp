// Convolution networks with their channels last: the same numbers as in the recorded order in f64, results
// and gradients that lie as recorded, and the bits of eager where the user brings arguments and parameters
// into that order himself, since the same kernels run.
#include "test/corpus/layout_check.h"
#include "zoo/resnet.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/nn.h>

namespace {

using namespace graphopt;
using torch::Tensor;
namespace nn = torch::nn;

/// A program over a module in training mode; weights, then the image, of one seed.
template <class Module>
corpus::Factory factory(std::function<std::shared_ptr<Module>()> build, std::vector<int64_t> sizes) {
  return [=] {
    torch::manual_seed(7);
    auto module = build();
    corpus::Instance instance;
    instance.args.emplace_back(torch::randn(sizes));
    const auto state = [module] {
      std::vector<capture::NamedTensor> named;
      for (const auto &item : module->named_parameters())
        named.push_back({item.key(), item.value(), true});
      for (const auto &item : module->named_buffers())
        named.push_back({item.key(), item.value(), false});
      return named;
    };
    instance.program = capture::functionProgram(
        "net",
        [module](std::vector<c10::IValue> args) -> c10::IValue {
          return module->forward(args[0].toTensor());
        },
        state);
    return instance;
  };
}

template <class Module> corpus::Factory factory(std::vector<int64_t> sizes) {
  return factory<Module>([] { return std::make_shared<Module>(); }, std::move(sizes));
}

corpus::Factory resnet(const zoo::ResNetConfig &config, std::vector<int64_t> sizes) {
  return factory<zoo::ResNetImpl>([&config] { return std::make_shared<zoo::ResNetImpl>(config); },
                                  std::move(sizes));
}

/// Downwards and upwards again, with a skip: transposed convolutions, cat, upsampling; the result is an
/// image.
struct Unet : nn::Module {
  Unet() {
    in = register_module("in", nn::Conv2d(nn::Conv2dOptions(3, 16, 3).padding(1)));
    down = register_module("down", nn::Conv2d(nn::Conv2dOptions(16, 32, 3).stride(2).padding(1)));
    mid = register_module("mid", nn::Conv2d(nn::Conv2dOptions(32, 32, 3).padding(1)));
    up = register_module("up", nn::ConvTranspose2d(nn::ConvTranspose2dOptions(32, 16, 2).stride(2)));
    out = register_module("out", nn::Conv2d(nn::Conv2dOptions(32, 8, 3).padding(1)));
  }
  Tensor forward(Tensor x) {
    const Tensor skip = torch::gelu(in(x));
    x = torch::leaky_relu(mid(torch::relu(down(skip))), 0.1);
    return torch::upsample_bilinear2d(out(torch::cat({up(x), skip}, 1)), {24, 24}, false);
  }
  nn::Conv2d in{nullptr}, down{nullptr}, mid{nullptr}, out{nullptr};
  nn::ConvTranspose2d up{nullptr};
};

/// An inverted residual with squeeze and excitation; operators in place, and a draw of channels.
struct Excited : nn::Module {
  Excited() {
    stem = register_module("stem", nn::Conv2d(nn::Conv2dOptions(3, 16, 3).padding(1).bias(false)));
    norm = register_module("norm", nn::BatchNorm2d(16));
    expand = register_module("expand", nn::Conv2d(nn::Conv2dOptions(16, 32, 1)));
    depth = register_module("depth", nn::Conv2d(nn::Conv2dOptions(32, 32, 3).padding(1).groups(32)));
    squeeze = register_module("squeeze", nn::Conv2d(nn::Conv2dOptions(32, 8, 1)));
    excite = register_module("excite", nn::Conv2d(nn::Conv2dOptions(8, 32, 1)));
    project = register_module("project", nn::Conv2d(nn::Conv2dOptions(32, 16, 1)));
    head = register_module("head", nn::Linear(16 * 6 * 6, 5));
  }
  Tensor forward(Tensor x) {
    x = norm(stem(x));
    torch::relu_(x);
    Tensor y = depth(torch::relu6(expand(x)));
    at::hardswish_(y);
    const Tensor scale = squeeze(torch::adaptive_avg_pool2d(y, {1, 1})).relu_();
    y = project(y * torch::hardsigmoid(excite(scale)));
    y = torch::feature_dropout(y, 0.3, /*train=*/true);
    return head(torch::max_pool2d(y.add_(x), 2).flatten(1));
  }
  nn::Conv2d stem{nullptr}, expand{nullptr}, depth{nullptr}, squeeze{nullptr}, excite{nullptr},
      project{nullptr};
  nn::BatchNorm2d norm{nullptr};
  nn::Linear head{nullptr};
};

struct Volume : nn::Module {
  Volume() {
    first = register_module("first", nn::Conv3d(nn::Conv3dOptions(2, 8, 3).padding(1)));
    norm = register_module("norm", nn::BatchNorm3d(8));
    second = register_module("second", nn::Conv3d(nn::Conv3dOptions(8, 8, 3).padding(1).bias(false)));
  }
  Tensor forward(Tensor x) {
    x = norm(first(x)).relu();
    return torch::adaptive_avg_pool3d(torch::max_pool3d(second(x) + x, 2), {1, 1, 1}).flatten(1);
  }
  nn::Conv3d first{nullptr}, second{nullptr};
  nn::BatchNorm3d norm{nullptr};
};

/// Images of one channel.
struct Gray : nn::Module {
  Gray() {
    first = register_module("first", nn::Conv2d(1, 8, 3));
    second = register_module("second", nn::Conv2d(8, 16, 3));
  }
  Tensor forward(Tensor x) {
    return torch::relu(second(torch::relu(torch::max_pool2d(first(x), 2)))).mean({2, 3});
  }
  nn::Conv2d first{nullptr}, second{nullptr};
};

struct NetworkCase {
  std::string name;
  corpus::Factory make;
  int64_t convolutions, most; ///< with channels last; conversions of images
  bool isEagers;              ///< the kernels are those of eager in that order, all of them
};

class ChannelsLast : public testing::TestWithParam<NetworkCase> {};

TEST_P(ChannelsLast, ComputesTheSame) {
  at::set_num_threads(1);
  const corpus::LayoutOutcome outcome = corpus::checkLayout(GetParam().make, {.seed = 3});
  EXPECT_EQ(outcome.verdict, corpus::Outcome::Verdict::Equal) << outcome.step << ": " << outcome.reason;
  EXPECT_EQ(outcome.convolutions, GetParam().convolutions);
  EXPECT_LE(outcome.conversions, GetParam().most);
  EXPECT_GT(outcome.compared, 3u);
  if (GetParam().isEagers) {
    EXPECT_EQ(outcome.asChannelsLast, outcome.compared);
  }
}

TEST(ChannelsLastUnderAutocast, CastsAndConversionsGoTogether) {
  at::set_num_threads(1);
  const corpus::LayoutOutcome outcome =
      corpus::checkLayout(factory<Unet>({2, 3, 16, 16}), {.seed = 3, .autocast = true});
  EXPECT_EQ(outcome.verdict, corpus::Outcome::Verdict::Equal) << outcome.step << ": " << outcome.reason;
  EXPECT_EQ(outcome.convolutions, 5);
  EXPECT_LE(outcome.conversions, 3);
}

INSTANTIATE_TEST_SUITE_P(
    Networks, ChannelsLast,
    testing::Values(NetworkCase{"resnet18", resnet(zoo::kResNet18, {2, 3, 64, 64}), 20, 1, true},
                    NetworkCase{"resnext14", resnet(zoo::kResNeXt14, {2, 3, 32, 32}), 17, 1, true},
                    NetworkCase{"unet", factory<Unet>({2, 3, 16, 16}), 5, 2, true},
                    NetworkCase{"excited", factory<Excited>({2, 3, 12, 12}), 6, 4, false},
                    NetworkCase{"volume", factory<Volume>({2, 2, 8, 8, 8}), 2, 1, true},
                    NetworkCase{"gray", factory<Gray>({2, 1, 20, 20}), 2, 0, false}),
    [](const auto &info) { return info.param.name; });

} // namespace
