// What channels last gives: forward and backward of a convolution network of the zoo.
//
//   layout-bench                              resnet18, a batch of 8, on the CPU
//   layout-bench resnet50 32x3x224x224 cuda bf16        (bf16: under autocast)
//
// Eager and eagerLast: the module with its autograd, in the recorded order and with image and parameters in
// channels-last order. Plan and planLast: the joint graph of the first as one plan, without and with the pass
// `layout`. Each turn runs all four, so that they see the same machine; medians of the turns, and their
// ratios.
#include "capture/capture.h"
#include "capture/program.h"
#include "driver/lowering.h"
#include "passes/manager.h"
#include "runtime/catalog.h"
#include "runtime/execute.h"
#include "zoo/resnet.h"

#include <ATen/autocast_mode.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <sstream>

namespace graphopt {
namespace {

using at::Tensor;

struct Setting {
  std::string name = "resnet18";
  std::vector<int64_t> sizes{8, 3, 224, 224};
  c10::Device device = c10::kCPU;
  bool isLow = false;
};

class Autocast {
public:
  explicit Autocast(const Setting &setting) : device_(setting.device.type()), isOn_(setting.isLow) {
    if (!isOn_)
      return;
    at::autocast::increment_nesting();
    at::autocast::set_autocast_enabled(device_, true);
    at::autocast::set_autocast_dtype(device_, at::kBFloat16);
  }
  ~Autocast() {
    if (!isOn_)
      return;
    at::autocast::set_autocast_enabled(device_, false);
    if (at::autocast::decrement_nesting() == 0)
      at::autocast::clear_cache();
  }
  Autocast(const Autocast &) = delete;
  Autocast &operator=(const Autocast &) = delete;

private:
  c10::DeviceType device_;
  bool isOn_;
};

/// The network in training mode, and an image.
struct Network {
  zoo::ResNet module;
  Tensor image;

  explicit Network(const Setting &setting)
      : module(setting.name == "resnet50"    ? zoo::kResNet50
               : setting.name == "resnext14" ? zoo::kResNeXt14
               : setting.name == "resnet10"  ? zoo::kResNet10
                                             : zoo::kResNet18),
        image(at::randn(setting.sizes).to(setting.device)) {
    module->to(setting.device);
  }

  void bringChannelsLast() {
    image = image.contiguous(at::MemoryFormat::ChannelsLast);
    for (const auto &parameter : module->parameters())
      if (parameter.dim() == 4)
        parameter.set_data(parameter.detach().contiguous(at::MemoryFormat::ChannelsLast));
  }

  void step(const Setting &setting) {
    Tensor result;
    {
      const Autocast autocast(setting);
      result = module->forward(image);
    }
    benchmark::DoNotOptimize(torch::autograd::grad({result}, module->parameters(), {at::ones_like(result)}));
  }
};

/// The joint graph as one plan, with what it runs on.
class Joint {
public:
  Joint(const Setting &setting, const std::string &pipeline) {
    network_ = std::make_unique<Network>(setting);
    program_ = capture::functionProgram(
        "net",
        [this](std::vector<c10::IValue> args) -> c10::IValue {
          return network_->module->forward(args[0].toTensor());
        },
        [this] { return state(); });
    capture::Capture capture = [&] {
      const Autocast autocast(setting);
      return capture::record(*program_, {network_->image});
    }();
    ir::Graph graph = capture.graph.clone();
    driver::Lowering lowering;
    passes::ManagerOptions manager;
    manager.catalog = &runtime::dispatcherCatalog();
    manager.pieces = &lowering.pieces();
    passes::runPipeline(graph, passes::parsePipeline(pipeline), manager);
    executor_ = std::make_unique<runtime::Executor>(runtime::buildPlan(graph));
    bind(graph, capture);
  }

  void step() { benchmark::DoNotOptimize(executor_->run(inputs_)); }

private:
  std::vector<capture::NamedTensor> state() const {
    std::vector<capture::NamedTensor> named;
    for (const auto &item : network_->module->named_parameters())
      named.push_back({item.key(), item.value(), true});
    for (const auto &item : network_->module->named_buffers())
      named.push_back({item.key(), item.value(), false});
    return named;
  }

  void bind(const ir::Graph &graph, const capture::Capture &capture) {
    std::unordered_map<std::string, Tensor> tensors;
    for (const capture::NamedTensor &named : state())
      tensors[named.name] = named.tensor.detach();
    for (const runtime::PlanInput &input : executor_->plan().inputs) {
      const ir::Value *value = graph.find(input.name);
      if (value->kind == ir::Value::Kind::Input)
        inputs_.push_back(network_->image);
      else if (value->kind == ir::Value::Kind::Cotangent)
        inputs_.push_back(at::ones({value->type.sizes[0].value(), value->type.sizes[1].value()},
                                   network_->image.options().dtype(value->type.dtype)));
      else if (const auto found = tensors.find(input.name); found != tensors.end())
        inputs_.push_back(found->second);
      else
        inputs_.push_back(capture.bound.at(inputs_.size()).get());
    }
  }

  std::unique_ptr<Network> network_;
  std::unique_ptr<capture::Program> program_;
  std::unique_ptr<runtime::Executor> executor_;
  std::vector<Tensor> inputs_;
};

double milliseconds(const std::function<void()> &step, const Setting &setting) {
  const auto start = std::chrono::steady_clock::now();
  step();
  if (setting.device.is_cuda())
    at::detail::getCUDAHooks().deviceSynchronize(-1);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(const Setting &setting) {
  Network eager(setting), eagerLast(setting);
  eagerLast.bringChannelsLast();
  const std::string lower = "lower{joint=on},lean";
  Joint plan(setting, "autocast,functionalize,dce," + lower),
      planLast(setting, "autocast,functionalize,dce,layout," + lower);
  const std::vector<std::pair<const char *, std::function<void()>>> ways = {
      {"eager", [&] { eager.step(setting); }},
      {"eagerLast", [&] { eagerLast.step(setting); }},
      {"plan", [&] { plan.step(); }},
      {"planLast", [&] { planLast.step(); }}};
  constexpr int kWarmup = 3, kTurns = 15;
  std::vector<std::vector<double>> times(ways.size());
  for (int turn = -kWarmup; turn < kTurns; ++turn)
    for (size_t i = 0; i < ways.size(); ++i)
      if (const double time = milliseconds(ways[i].second, setting); turn >= 0)
        times[i].push_back(time);
  const double first = median(times[0]);
  for (size_t i = 0; i < ways.size(); ++i)
    std::printf("%-9s %9.3f ms, %.3f of eager\n", ways[i].first, median(times[i]), median(times[i]) / first);
}

std::vector<int64_t> sizesOf(const std::string &word) {
  std::vector<int64_t> sizes;
  std::istringstream in(word);
  for (std::string size; std::getline(in, size, 'x');)
    sizes.push_back(std::stoll(size));
  return sizes;
}

int run(int argc, char **argv) {
  Setting setting;
  for (const std::string &word : std::vector<std::string>(argv + 1, argv + argc))
    if (word.starts_with("cuda"))
      setting.device = c10::Device(word);
    else if (word == "bf16")
      setting.isLow = true;
    else if (std::isdigit(static_cast<unsigned char>(word[0])))
      setting.sizes = sizesOf(word);
    else
      setting.name = word;
  measure(setting);
  return 0;
}

} // namespace
} // namespace graphopt

int main(int argc, char **argv) { return graphopt::run(argc, argv); }
