// Reads the switches from LibTorch and spells them as the state line of the text.
#include "capture/ambient.h"

#include "ir/settings.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <graphopt/error.h>

#include <algorithm>
#include <fmt/format.h>

namespace graphopt::capture {
namespace {

ir::NamedAttr wordAttr(const char *name, std::string word) { return {name, ir::Attr::word(std::move(word))}; }

/// One switch of LibTorch's backends: its name in a setting guard, and which operators it concerns.
struct Switch {
  enum class Concerns { Attention, Cudnn };
  std::string_view name;
  Concerns concerns;
  bool (*read)(const at::Context &);
};
constexpr Switch::Concerns kAttention = Switch::Concerns::Attention, kCudnn = Switch::Concerns::Cudnn;

bool allowsTf32(const at::Context &context, at::Float32Op op) {
  // By operator: the question without one fails when the two differ.
  return context.float32Precision(at::Float32Backend::CUDA, op) == at::Float32Precision::TF32;
}

constexpr Switch kSwitches[] = {
    {"sdp.flash", kAttention, [](const at::Context &c) { return c.userEnabledFlashSDP(); }},
    {"sdp.mem_efficient", kAttention, [](const at::Context &c) { return c.userEnabledMemEfficientSDP(); }},
    {"sdp.math", kAttention, [](const at::Context &c) { return c.userEnabledMathSDP(); }},
    {"sdp.cudnn", kAttention, [](const at::Context &c) { return c.userEnabledCuDNNSDP(); }},
    {"cudnn.enabled", kCudnn, [](const at::Context &c) { return c.userEnabledCuDNN(); }},
    {"cudnn.benchmark", kCudnn, [](const at::Context &c) { return c.benchmarkCuDNN(); }},
    {"cudnn.deterministic", kCudnn, [](const at::Context &c) { return c.deterministicCuDNN(); }},
    {"cudnn.conv.allow_tf32", kCudnn,
     [](const at::Context &c) { return allowsTf32(c, at::Float32Op::CONV); }},
    {"cudnn.rnn.allow_tf32", kCudnn, [](const at::Context &c) { return allowsTf32(c, at::Float32Op::RNN); }},
};

/// Operators that choose among attention kernels; what is not LibTorch's own may call one of them.
bool mayAttend(const ir::Op &op) {
  if (op.kind != ir::Op::Kind::Call)
    return false;
  constexpr std::string_view kParts[] = {"scaled_dot_product", "_fused_sdp", "multi_head_attention",
                                         "transformer_encoder_layer"};
  bool isNamed = std::any_of(std::begin(kParts), std::end(kParts),
                             [&](std::string_view part) { return op.name.find(part) != op.name.npos; });
  return isNamed || !(op.name.starts_with("aten.") || op.name.starts_with("prim"));
}

bool runsOnCuda(const ir::Graph &graph) {
  if (graph.device.type == "cuda")
    return true;
  bool found = false;
  ir::walk(graph.body(), [&](const ir::Op &op) {
    for (const ir::Value *result : op.results())
      found |= result->type.device && result->type.device->type == "cuda";
  });
  return found;
}

} // namespace

std::string onOff(bool value) { return value ? "on" : "off"; }

AmbientState ambientNow(c10::DeviceType device) {
  const c10::AutogradState &autograd = c10::AutogradState::get_tls_state();
  AmbientState state;
  state.grad = autograd.get_grad_mode();
  state.inference = autograd.get_inference_mode();
  state.autocast = at::autocast::is_autocast_enabled(device);
  if (state.autocast) {
    state.autocastDtype = at::autocast::get_autocast_dtype(device);
    state.autocastCache = at::autocast::is_autocast_cache_enabled();
  }
  return state;
}

std::vector<ir::NamedAttr> ambientWords(const AmbientState &state) {
  std::vector<ir::NamedAttr> words;
  if (state.autocast)
    words.push_back(wordAttr("amp", std::string(ir::dtypeName(state.autocastDtype))));
  if (!state.autocastCache)
    words.push_back(wordAttr("amp_cache", "off"));
  if (!state.grad)
    words.push_back(wordAttr("grad", "off"));
  if (state.inference)
    words.push_back(wordAttr("inference", "on"));
  return words;
}

std::string deterministicWord() {
  const at::Context &context = at::globalContext();
  return std::string(
      ir::deterministicWord(context.deterministicAlgorithms(), context.deterministicAlgorithmsWarnOnly()));
}

/// Asked for one by one: LibTorch's own single answer fails when they were set so.
std::string matmulWord() {
  auto precision = [](at::Float32Backend backend) {
    return at::precision2str(at::globalContext().float32Precision(backend, at::Float32Op::MATMUL));
  };
  std::string cuda = precision(at::Float32Backend::CUDA), mkldnn = precision(at::Float32Backend::MKLDNN);
  std::string_view word = ir::matmulWord(cuda, mkldnn);
  return word.empty() ? fmt::format("cuda.{}.mkldnn.{}", cuda, mkldnn) : std::string(word);
}

ProcessState processState() {
  ProcessState state{deterministicWord(), matmulWord(), {}};
  for (const Switch &one : kSwitches)
    state.switches.push_back(one.read(at::globalContext()));
  return state;
}

std::string switchWord(std::string_view name) {
  for (const Switch &one : kSwitches)
    if (one.name == name)
      return onOff(one.read(at::globalContext()));
  GO_ASSERT(false, "no switch is called " + std::string(name));
}

std::vector<std::pair<std::string_view, std::string>> switchesFor(const ir::Graph &graph,
                                                                  const ProcessState &state) {
  bool attends = false;
  ir::walk(graph.body(), [&](const ir::Op &op) { attends |= mayAttend(op); });
  bool usesCudnn = runsOnCuda(graph);
  std::vector<std::pair<std::string_view, std::string>> words;
  for (size_t i = 0; i < std::size(kSwitches); ++i)
    if (kSwitches[i].concerns == kAttention ? attends : usesCudnn)
      words.emplace_back(kSwitches[i].name, onOff(state.switches.at(i)));
  return words;
}

std::string autocastWord(c10::DeviceType device) {
  if (!at::autocast::is_autocast_enabled(device))
    return "off";
  return std::string(ir::dtypeName(at::autocast::get_autocast_dtype(device)));
}

std::string defaultDtypeWord() { return std::string(ir::dtypeName(c10::get_default_dtype_as_scalartype())); }

} // namespace graphopt::capture
