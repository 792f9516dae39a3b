// corpus-zoo DATA: the networks of examples/zoo against the public models that they are. Each takes over the
// weights of a model of the corpus by name, then has to give what the public model gave. Exits 1 when a name
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

/// How the results differ; empty when they do not.
std::string compare(const Tensors &want, const Tensors &got, double tolerance) {
  const std::string exact = graphopt::corpus::differenceIn("output", want, got);
  if (exact.empty() || tolerance == 0)
    return exact;
  for (size_t i = 0; i < want.size(); ++i) {
    const double worst = (got.at(i) - want[i]).abs().max().item<double>();
    if (!(worst <= tolerance * want[i].abs().max().item<double>()))
      return fmt::format("output {} is off by {}", i, worst);
  }
  return "";
}

std::string check(const Case &test, const std::filesystem::path &data) {
  const torch::NoGradGuard noGrad;
  const Network network = test.make();
  network.module->eval();
  const torch::jit::Module model = torch::jit::load((data / (test.model + ".pt")).string());
  if (std::string why = carryOver(model, test.prefix, *network.module); !why.empty())
    return why;
  const torch::jit::Module io = torch::jit::load((data / (test.model + ".io.pt")).string());
  for (const std::string batch : {"", "alt_"}) {
    const Tensors want = buffersOf(io, batch + "output"), got = network.call(buffersOf(io, batch + "input"));
    if (std::string why = compare(want, got, test.tolerance); !why.empty())
      return why;
  }
  return "";
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("The zoo's networks against the public models that they are");
  graphopt::corpus::Selection selection;
  selection.add(app, "models");
  if (auto status = graphopt::corpus::parseArguments(app, argc, argv))
    return *status;
  at::set_num_threads(1); // as when the results were written
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
