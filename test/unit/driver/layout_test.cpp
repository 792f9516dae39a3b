// CompileOptions::layout: what the program sees is as without, and between convolutions images lie with their
// channels last.
#include <graphopt/graphopt.h>

#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace {

using at::Tensor;
using graphopt::Layout;
using Tensors = std::vector<Tensor>;

torch::nn::Conv2d convolution(int64_t from, int64_t to) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 3).padding(1).bias(false));
}

/// Convolutions enough to be worth the conversions, statistics that are written, a result in the middle.
struct Net : torch::nn::Module {
  torch::nn::Sequential body;
  torch::nn::Linear head{nullptr};
  Net() {
    for (int i = 0; i < 6; ++i) {
      body->push_back(convolution(i == 0 ? 8 : 32, 32));
      body->push_back(torch::nn::BatchNorm2d(32));
      body->push_back(torch::nn::ReLU());
    }
    register_module("body", body);
    head = register_module("head", torch::nn::Linear(32, 5));
  }
  std::tuple<Tensor, Tensor> forward(const Tensor &x) {
    const Tensor images = body->forward(x);
    return {head(images.mean({2, 3})), images};
  }
};

/// Convolutions whose images and weights lie with their channels last, as far as is seen while it lives.
class ConvolutionsSeen {
public:
  ConvolutionsSeen() {
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&look).needsInputs(true).scopes(
        {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
    plain = channelsLast = 0;
  }
  ~ConvolutionsSeen() { at::removeCallback(handle_); }
  ConvolutionsSeen(const ConvolutionsSeen &) = delete;
  ConvolutionsSeen &operator=(const ConvolutionsSeen &) = delete;
  static inline thread_local int plain = 0, channelsLast = 0;

private:
  static std::unique_ptr<at::ObserverContext> look(const at::RecordFunction &function) {
    if (std::string_view(function.name()) != "aten::mkldnn_convolution")
      return nullptr;
    const bool isLast = function.inputs()[0].toTensor().is_contiguous(at::MemoryFormat::ChannelsLast) &&
                        function.inputs()[1].toTensor().is_contiguous(at::MemoryFormat::ChannelsLast);
    ++(isLast ? channelsLast : plain);
    return nullptr;
  }
  at::CallbackHandle handle_;
};

struct Trained {
  Tensors values;
  std::vector<std::vector<int64_t>> strides;
  graphopt::Explanation explanation;
};

Trained train(const graphopt::CompileOptions &options, const std::vector<int64_t> &batches) {
  torch::manual_seed(1);
  auto net = std::make_shared<Net>();
  net->to(at::kDouble); // roundings of other kernels stay small
  auto fast = graphopt::compile(net, options);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  Trained trained;
  for (const int64_t batch : batches) {
    optimizer.zero_grad();
    const auto [scores, images] = fast(torch::randn({batch, 8, 24, 24}, at::kDouble));
    (scores.sum() + images.pow(2).mean()).backward();
    trained.values.insert(trained.values.end(), {scores.detach(), images.detach()});
    for (const Tensor &parameter : net->parameters())
      trained.values.push_back(parameter.grad().clone());
    optimizer.step();
  }
  for (const Tensor &buffer : net->buffers())
    trained.values.push_back(buffer);
  for (const Tensor &value : trained.values)
    trained.strides.push_back(value.strides().vec());
  trained.explanation = fast.explain();
  return trained;
}

void expectTheSameWithChannelsLast(const std::vector<int64_t> &batches) {
  const Trained eager = train({.disable = true}, batches);
  const Trained compiled = train({.strict = true, .layout = Layout::channelsLast}, batches);
  ASSERT_EQ(eager.values.size(), compiled.values.size());
  for (size_t i = 0; i < eager.values.size(); ++i)
    EXPECT_TRUE(at::allclose(eager.values[i], compiled.values[i], 1e-9, 1e-11)) << "value " << i;
  EXPECT_EQ(eager.strides, compiled.strides);
  EXPECT_GE(compiled.explanation.compiledRuns, 2u) << compiled.explanation;
  EXPECT_TRUE(compiled.explanation.notCompiled.empty()) << compiled.explanation;
}

TEST(Layout, ResultsLieAsInEager) { expectTheSameWithChannelsLast({4, 4, 4, 4, 4}); }

TEST(Layout, ForManySizes) { expectTheSameWithChannelsLast({4, 4, 5, 6, 4, 3, 6, 5}); }

TEST(Layout, IsAskedForByName) {
  const auto convolutions = [](Layout layout) {
    torch::manual_seed(1);
    auto net = std::make_shared<Net>();
    auto fast = graphopt::compile(net, {.strict = true, .layout = layout});
    const Tensor x = torch::randn({4, 8, 24, 24});
    for (int i = 0; i < 3; ++i)
      (std::get<0>(fast(x)).sum() + std::get<1>(fast(x)).sum()).backward();
    const ConvolutionsSeen seen;
    fast(x);
    return std::pair(seen.plain, seen.channelsLast);
  };
  EXPECT_EQ(convolutions(Layout::asIs), std::pair(6, 0));
  EXPECT_EQ(convolutions(Layout::channelsLast), std::pair(0, 6));
}

} // namespace
