// Reads the switches from LibTorch and spells them as the state line of the text.
#include "capture/ambient.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>

namespace graphopt::capture {
namespace {

ir::NamedAttr wordAttr(const char *name, std::string word) { return {name, ir::Attr::word(std::move(word))}; }

std::string matmulWord() {
  switch (at::globalContext().float32MatmulPrecision()) {
  case at::Float32MatmulPrecision::HIGHEST:
    return "highest";
  case at::Float32MatmulPrecision::HIGH:
    return "high";
  case at::Float32MatmulPrecision::MEDIUM:
    return "medium";
  }
  return "highest";
}

} // namespace

std::string onOff(bool value) { return value ? "on" : "off"; }

AmbientState ambientNow(c10::DeviceType device) {
  const c10::AutogradState &autograd = c10::AutogradState::get_tls_state();
  AmbientState state;
  state.grad = autograd.get_grad_mode();
  state.inference = autograd.get_inference_mode();
  state.autocast = at::autocast::is_autocast_enabled(device);
  if (state.autocast)
    state.autocastDtype = at::autocast::get_autocast_dtype(device);
  return state;
}

std::vector<ir::NamedAttr> ambientWords(const AmbientState &state) {
  std::vector<ir::NamedAttr> words;
  if (state.autocast)
    words.push_back(wordAttr("amp", std::string(ir::dtypeName(state.autocastDtype))));
  if (!state.grad)
    words.push_back(wordAttr("grad", "off"));
  if (state.inference)
    words.push_back(wordAttr("inference", "on"));
  return words;
}

ProcessState processState() {
  const at::Context &context = at::globalContext();
  bool warns = context.deterministicAlgorithms() && context.deterministicAlgorithmsWarnOnly();
  return {warns ? "warn" : onOff(context.deterministicAlgorithms()), matmulWord()};
}

std::string autocastWord(c10::DeviceType device) {
  if (!at::autocast::is_autocast_enabled(device))
    return "off";
  return std::string(ir::dtypeName(at::autocast::get_autocast_dtype(device)));
}

std::string defaultDtypeWord() { return std::string(ir::dtypeName(c10::get_default_dtype_as_scalartype())); }

} // namespace graphopt::capture
