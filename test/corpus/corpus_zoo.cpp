// corpus-zoo DATA: the networks of examples/zoo against the public models that they are. Each takes over the
// weights of a model of the corpus by name, then has to give what the public model gave, and, where the
// corpus has its script, what that gives in training mode: gradients and statistics too. Exits 1 when a name
// is missing on either side or a result differs.
#include "arguments.h"
#include "comparison.h"
#include "zoo/bert.h"
#include "zoo/gpt2.h"
#include "zoo/lstm_lm.h"
#include "zoo/resnet.h"
#include "zoo/vit.h"

#include <ATen/Parallel.h>
#include <cstdio>
#include <fmt/format.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

namespace {

using Tensors = std::vector<at::Tensor>;

/// A module of the zoo, and its call.
struct Network {
  std::shared_ptr<torch::nn::Module> module;
  std::function<Tensors(const Tensors &)> call;
};

struct Case {
  std::string model;  ///< of the corpus
  std::string prefix; ///< that its names have, and the zoo's have not
  double tolerance;   ///< relative to the largest value; 0: bit for bit
  std::function<Network()> make;
};

template <class Holder, const auto &config> Network network() {
  Holder module(config);
  return {module.ptr(),
          [module](const Tensors &inputs) mutable -> Tensors { return {module(inputs.at(0))}; }};
}

/// The public BertModel returns the hidden states and what the pooler makes of the first.
Network bertModel() {
  zoo::BertClassifier module(zoo::kBertTiny);
  return {module->bert.ptr(), [module](const Tensors &inputs) mutable -> Tensors {
            const at::Tensor hidden = module->bert(inputs.at(0), inputs.at(1));
            return {hidden, module->pooler(hidden.select(1, 0)).tanh()};
          }};
}

Network maskedBert() {
  zoo::Bert module(zoo::kBertTiny);
  return {module.ptr(), [module](const Tensors &inputs) mutable -> Tensors {
            return {module(inputs.at(0), inputs.at(1))};
          }};
}

/// For sums in another order: with 256 inputs and more, adding the bias after the product, as LibTorch's
/// nn::Linear does with three dimensions, rounds otherwise than aten.linear; and so does the fused attention
/// beside its formula in single operators.
constexpr double kRounding = 1e-6;

const std::vector<Case> kCases = {
    {"tv_resnet10", "", 0, network<zoo::ResNet, zoo::kResNet10>},
    {"tv_resnext10", "", 0, network<zoo::ResNet, zoo::kResNeXt14>},
    {"tv_vit_small", "", 0, network<zoo::Vit, zoo::kVitTiny>},
    {"hf_gpt2", "model.", 0, network<zoo::Gpt2, zoo::kGpt2Tiny>},
    {"hf_bert", "model.", kRounding, bertModel},
    {"hf_bert_eager", "model.", kRounding, maskedBert},
    {"own_lstm_lm", "", 0, network<zoo::LstmLm, zoo::kLstmLmTiny>},
};

/// Copies every parameter and buffer. What is wrong with the names; empty when nothing is.
std::string carryOver(const torch::jit::Module &from, const std::string &prefix, torch::nn::Module &to) {
  const torch::NoGradGuard noGrad;
  std::map<std::string, at::Tensor> source;
  std::map<const void *, std::string> unused; // parameters; tied ones have two names and one memory
  for (const auto &parameter : from.named_parameters()) {
    source[parameter.name] = parameter.value;
    unused[parameter.value.data_ptr()] = parameter.name;
  }
  for (const auto &buffer : from.named_buffers()) // the public model may have some that nothing reads
    source[buffer.name] = buffer.value;
  const auto copy = [&](const auto &items) -> std::string {
    for (const auto &item : items) {
      const auto found = source.find(prefix + item.key());
      if (found == source.end() || found->second.sizes() != item.value().sizes())
        return fmt::format("'{}' is not there, or of another size", prefix + item.key());
      at::Tensor(item.value()).copy_(found->second);
      unused.erase(found->second.data_ptr());
    }
    return "";
  };
  if (std::string why = copy(to.named_parameters()) + copy(to.named_buffers()); !why.empty())
    return why;
  return unused.empty() ? "" : fmt::format("'{}' has no counterpart", unused.begin()->second);
}

Tensors buffersOf(const torch::jit::Module &io, const std::string &prefix) {
  Tensors tensors;
  for (int i = 0; io.hasattr(prefix + std::to_string(i)); ++i)
    tensors.push_back(io.attr(prefix + std::to_string(i)).toTensor());
  return tensors;
}

/// How two tensors differ by more than the tolerance; empty when they do not.
std::string compare(const std::string &what, const at::Tensor &want, const at::Tensor &got,
                    double tolerance) {
  if (tolerance == 0) {
    const std::string why = graphopt::corpus::difference(want, got);
    return why.empty() ? "" : what + ": " + why;
  }
  const double worst = (got - want).abs().max().item<double>();
  const bool good = worst <= tolerance * want.abs().max().item<double>();
  return good ? "" : fmt::format("{} is off by {}", what, worst);
}

std::string compareOutputs(const Tensors &want, const Tensors &got, double tolerance) {
  std::string why = want.size() == got.size() ? "" : fmt::format("{} outputs", got.size());
  for (size_t i = 0; i < want.size() && why.empty(); ++i)
    why = compare(fmt::format("output {}", i), want[i], got[i], tolerance);
  return why;
}

/// The saved results of both batches.
std::string checkInference(const Case &test, const Network &network, const torch::jit::Module &io) {
  const torch::NoGradGuard noGrad;
  network.module->eval();
  std::string why;
  for (const std::string batch : {"", "alt_"})
    if (why.empty())
      why = compareOutputs(buffersOf(io, batch + "output"), network.call(buffersOf(io, batch + "input")),
                           test.tolerance);
  return why;
}

/// One call and its backward in training mode, beside the script's: what dropout drops, the statistics of
/// batch norm, gradients.
std::string checkTraining(const Case &test, const Network &network, torch::jit::Module script,
                          const Tensors &inputs) {
  const auto run = [](const auto &call) {
    torch::manual_seed(5);
    at::Tensor output = call();
    output.square().sum().backward();
    return output.detach();
  };
  script.train();
  network.module->train();
  const at::Tensor want = run([&] { return script.forward({inputs.begin(), inputs.end()}).toTensor(); });
  const at::Tensor got = run([&] { return network.call(inputs).at(0); });
  std::string why = compareOutputs({want}, {got}, test.tolerance);
  const auto parameters = network.module->named_parameters();
  for (const auto &item : script.named_parameters())
    if (const at::Tensor *own = parameters.find(item.name.substr(test.prefix.size())); own && why.empty())
      why = compare("gradient of " + item.name, item.value.grad(), own->grad(), kRounding);
  const auto buffers = network.module->named_buffers();
  for (const auto &item : script.named_buffers())
    if (const at::Tensor *own = buffers.find(item.name.substr(test.prefix.size())); own && why.empty())
      why = compare(item.name, item.value, *own, 0);
  return why;
}

std::string check(const Case &test, const std::filesystem::path &data) {
  const auto load = [&](const char *suffix) {
    return torch::jit::load((data / (test.model + suffix)).string());
  };
  const Network network = test.make();
  const torch::jit::Module io = load(".io.pt");
  std::string why = carryOver(load(".pt"), test.prefix, *network.module);
  if (why.empty())
    why = checkInference(test, network, io);
  if (why.empty() && std::filesystem::exists(data / (test.model + ".script.pt")))
    why = checkTraining(test, network, load(".script.pt"), buffersOf(io, "input"));
  return why;
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("The zoo's networks against the public models that they are");
  graphopt::corpus::Selection selection;
  selection.add(app, "models");
  if (auto status = graphopt::corpus::parseArguments(app, argc, argv))
    return *status;
  at::set_num_threads(1); // as when the results were written
  torch::jit::setGraphExecutorOptimize(false);
  size_t passed = 0, failed = 0;
  for (const Case &test : kCases) {
    if (!selection.wants(test.model))
      continue;
    std::string why;
    try {
      why = check(test, selection.data());
    } catch (const std::exception &error) {
      why = std::string(error.what()).substr(0, 200);
    }
    ++(why.empty() ? passed : failed);
    const char *good = test.tolerance == 0 ? "equal" : "equal up to rounding";
    std::printf("%s | %s\n", test.model.c_str(), why.empty() ? good : why.c_str());
  }
  std::printf("zoo: %zu passed, %zu failed\n", passed, failed);
  return failed || !passed ? 1 : 0;
}
