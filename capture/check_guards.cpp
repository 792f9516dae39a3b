// Evaluates a graph's guards against a live call: in order, stopping at the first that fails. Texts are made
// for the failing one only.
#include "capture/ambient.h"
#include "capture/argument_names.h"
#include "capture/live_tensors.h"
#include "capture/tensor_type.h"
#include "capture/to_attr.h"
#include "ir/print.h"

#include <ATen/autocast_mode.h>
#include <graphopt/error.h>

namespace graphopt::capture {
namespace {

using ir::Guard;

/// One check of one capture. Each evaluator returns the actual value as text, or nothing when the guard
/// holds.
class GuardCheck {
public:
  GuardCheck(const Capture &capture, const std::vector<Structure> &arguments,
             const std::vector<at::Tensor> &leaves)
      : capture_(capture), arguments_(arguments), leaves_(leaves), live_(capture, leaves) {}

  std::optional<std::string> failure(const Guard &guard);

private:
  std::optional<std::string> meta(const Guard &guard);
  std::optional<std::string> offset(const Guard &guard);
  std::optional<std::string> argument(const Guard &guard);
  std::optional<std::string> same(const Guard &guard);
  std::optional<std::string> alias(const Guard &guard);
  std::optional<std::string> unshared(const Guard &guard);
  static std::optional<std::string> word(const Guard &guard, const std::string &actual);
  static std::string stateWord(const Guard &guard);
  const std::string &literal(const Guard &guard, size_t i) const {
    return guard.operands.at(i).literal.text();
  }

  const Capture &capture_;
  const std::vector<Structure> &arguments_;
  const std::vector<at::Tensor> &leaves_;
  LiveTensors live_;
  std::vector<NamedConstant> expected_, actual_; // the arguments' plain values, made on first use
  std::vector<std::string> leafNames_;
};

std::optional<std::string> GuardCheck::meta(const Guard &guard) {
  const at::Tensor &tensor = live_.of(guard.operands.at(0).value);
  if (hasType(std::get<ir::Type>(guard.expected), tensor, capture_.graph.device))
    return std::nullopt;
  if (!tensor.defined())
    return "a tensor that the program has dropped";
  std::string layout = unsupportedLayout(tensor);
  std::string type = toString(typeOf(tensor, capture_.graph.device));
  return layout.empty() ? type : type + " (" + layout + ")";
}

std::optional<std::string> GuardCheck::offset(const Guard &guard) {
  int64_t actual = live_.of(guard.operands.at(0).value).storage_offset();
  if (std::get<ir::Attr>(guard.expected) == ir::Attr::integer(actual))
    return std::nullopt;
  return fmt::format("{}", actual);
}

std::optional<std::string> GuardCheck::argument(const Guard &guard) {
  if (expected_.empty()) {
    expected_ = constantsOf(capture_.arguments, capture_.argumentNames);
    actual_ = constantsOf(arguments_, capture_.argumentNames);
  }
  for (size_t i = 0; i < expected_.size(); ++i) {
    if (expected_[i].name != literal(guard, 0))
      continue;
    Structure expected, actual;
    expected.constant = *expected_[i].value;
    actual.constant = *actual_.at(i).value;
    if (difference(expected, actual).empty())
      return std::nullopt;
    return toString(toAttr(actual.constant));
  }
  GO_ASSERT(false, "a guard about an argument that is not there: " + literal(guard, 0));
}

std::optional<std::string> GuardCheck::same(const Guard &guard) {
  if (leafNames_.empty())
    leafNames_ = leafNames(capture_.arguments, capture_.argumentNames);
  const at::Tensor *tensors[2] = {nullptr, nullptr};
  for (size_t side = 0; side < 2; ++side)
    for (size_t i = 0; i < leafNames_.size(); ++i)
      if (leafNames_[i] == literal(guard, side))
        tensors[side] = &leaves_[i];
  GO_ASSERT(tensors[0] && tensors[1], "a guard about an argument that is not there");
  return word(guard, onOff(tensors[0]->is_same(*tensors[1])));
}

std::optional<std::string> GuardCheck::alias(const Guard &guard) {
  const at::Tensor first = live_.of(guard.operands.at(0).value);
  const at::Tensor &second = live_.of(guard.operands.at(1).value);
  if (first.is_same(second))
    return word(guard, "same");
  return word(guard, overlap(first, second) ? "overlap" : "distinct");
}

std::optional<std::string> GuardCheck::unshared(const Guard &guard) {
  const ir::Value *value = guard.operands.at(0).value;
  const at::Tensor tensor = live_.of(value);
  for (const LiveTensors::Entry &other : live_.all())
    if (other.value != value && overlap(tensor, other.tensor))
      return fmt::format("off, %{} shares it", other.value->name);
  return std::nullopt;
}

std::optional<std::string> GuardCheck::word(const Guard &guard, const std::string &actual) {
  if (std::get<ir::Attr>(guard.expected).isWord(actual))
    return std::nullopt;
  return actual;
}

std::string GuardCheck::stateWord(const Guard &guard) {
  if (guard.kind == "grad_mode")
    return onOff(at::GradMode::is_enabled());
  if (guard.kind == "inference_mode")
    return onOff(c10::InferenceMode::is_enabled());
  if (guard.kind == "autocast")
    return autocastWord(c10::Device(guard.operands.at(0).literal.text()).type());
  if (guard.kind == "autocast_cache")
    return onOff(at::autocast::is_autocast_cache_enabled());
  if (guard.kind == "default_dtype")
    return defaultDtypeWord();
  if (guard.kind == "deterministic")
    return deterministicWord();
  if (guard.kind == "setting")
    return switchWord(guard.operands.at(0).literal.text());
  GO_ASSERT(guard.kind == "matmul_precision", "no evaluator for guard kind " + guard.kind);
  return matmulWord();
}

std::optional<std::string> GuardCheck::failure(const Guard &guard) {
  if (guard.kind == "meta")
    return meta(guard);
  if (guard.kind == "offset")
    return offset(guard);
  if (guard.kind == "argument")
    return argument(guard);
  if (guard.kind == "same")
    return same(guard);
  if (guard.kind == "alias")
    return alias(guard);
  if (guard.kind == "unshared")
    return unshared(guard);
  return word(guard, stateWord(guard));
}

/// The same nesting with tensors in the same places; plain values may differ, guards compare them.
std::string shapeDifference(const Structure &expected, const Structure &actual) {
  bool bothPlain = expected.kind == Structure::Kind::Constant && actual.kind == Structure::Kind::Constant;
  if (bothPlain)
    return "";
  if (expected.kind != actual.kind || expected.children.size() != actual.children.size() ||
      expected.keys.size() != actual.keys.size())
    return difference(expected, actual);
  for (size_t i = 0; i < expected.keys.size(); ++i)
    if (!(expected.keys[i] == actual.keys[i]))
      return "other keys";
  for (size_t i = 0; i < expected.children.size(); ++i)
    if (std::string inner = shapeDifference(expected.children[i], actual.children[i]); !inner.empty())
      return fmt::format("item {}: {}", i, inner);
  return "";
}

std::optional<GuardMiss> shapeMiss(const Capture &capture, const std::vector<Structure> &arguments) {
  if (arguments.size() != capture.arguments.size())
    return GuardMiss{-1, fmt::format("arguments == {}", capture.arguments.size()),
                     fmt::format("{}", arguments.size())};
  for (size_t i = 0; i < arguments.size(); ++i)
    if (std::string text = shapeDifference(capture.arguments[i], arguments[i]); !text.empty())
      return GuardMiss{-1, fmt::format("argument {} has the recorded structure", capture.argumentNames[i]),
                       text};
  return std::nullopt;
}

} // namespace

std::optional<GuardMiss> checkGuards(const Capture &capture, const std::vector<c10::IValue> &args) {
  std::vector<at::Tensor> leaves;
  std::vector<Structure> arguments;
  for (const c10::IValue &arg : args)
    arguments.push_back(flatten(arg, leaves));
  if (std::optional<GuardMiss> miss = shapeMiss(capture, arguments))
    return miss;
  GuardCheck check(capture, arguments, leaves);
  for (const Guard &guard : capture.graph.guards)
    if (std::optional<std::string> actual = check.failure(guard))
      return GuardMiss{guard.number, ir::print(guard), *actual};
  return std::nullopt;
}

} // namespace graphopt::capture
