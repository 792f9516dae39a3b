// The text may come from a cache that somebody else wrote: nothing in it is believed before it is checked.
#include "runtime/plan_io.h"

#include "graphopt/error.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace graphopt::runtime {
namespace {
using Json = nlohmann::ordered_json;

constexpr int kVersion = 3;
constexpr const char *kFormat = "graphopt-plan";
constexpr int kMaxDepth = 64; // of nested lists

[[noreturn]] void bad(const std::string &what) {
  userError("this is no graphopt plan: " + what + "; compile again");
}

// ---- scalars. A JSON number cannot hold inf or nan, nor tell 1 from 1.0 in every reader, so each kind has
// its own key.

Json write(const Scalar &scalar) {
  switch (scalar.kind) {
  case Scalar::Kind::None:
    return nullptr;
  case Scalar::Kind::Bool:
    return scalar.boolean;
  case Scalar::Kind::Int:
    return scalar.integer;
  case Scalar::Kind::Float:
    return {{"f", fmt::format("{}", scalar.real)}};
  case Scalar::Kind::Complex:
    return {{"c", {fmt::format("{}", scalar.real), fmt::format("{}", scalar.imaginary)}}};
  case Scalar::Kind::String:
    return scalar.text;
  case Scalar::Kind::Word:
    return {{"w", scalar.text}};
  case Scalar::Kind::Dim:
    return {{"d", scalar.text}};
  case Scalar::Kind::List: {
    Json items = Json::array();
    for (const Scalar &item : scalar.items)
      items.push_back(write(item));
    return items;
  }
  }
  return nullptr;
}

double readFloat(const Json &json) {
  const auto &text = json.get_ref<const std::string &>();
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    bad("'" + text + "' is no number");
  return value;
}

Scalar readScalar(const Json &json, int depth = 0) {
  Scalar scalar;
  if (depth > kMaxDepth)
    bad("its lists are nested too deeply");
  if (json.is_boolean()) {
    scalar.kind = Scalar::Kind::Bool;
    scalar.boolean = json.get<bool>();
  } else if (json.is_number_integer()) {
    scalar.kind = Scalar::Kind::Int;
    scalar.integer = json.get<int64_t>();
  } else if (json.is_string()) {
    scalar.kind = Scalar::Kind::String;
    scalar.text = json.get<std::string>();
  } else if (json.is_array()) {
    scalar.kind = Scalar::Kind::List;
    for (const Json &item : json)
      scalar.items.push_back(readScalar(item, depth + 1));
  } else if (json.contains("f")) {
    scalar.kind = Scalar::Kind::Float;
    scalar.real = readFloat(json.at("f"));
  } else if (json.contains("c")) {
    scalar.kind = Scalar::Kind::Complex;
    scalar.real = readFloat(json.at("c").at(0));
    scalar.imaginary = readFloat(json.at("c").at(1));
  } else if (json.contains("w")) {
    scalar.kind = Scalar::Kind::Word;
    scalar.text = json.at("w").get<std::string>();
  } else if (json.contains("d")) {
    scalar.kind = Scalar::Kind::Dim;
    scalar.text = json.at("d").get<std::string>();
  } else if (!json.is_null()) {
    bad("a scalar is of no known kind");
  }
  return scalar;
}

Json write(const std::vector<Scalar> &scalars) {
  Json json = Json::array();
  for (const Scalar &scalar : scalars)
    json.push_back(write(scalar));
  return json;
}

std::vector<Scalar> readScalars(const Json &json) {
  std::vector<Scalar> scalars;
  for (const Json &item : json)
    scalars.push_back(readScalar(item));
  return scalars;
}

// ---- enums as words, in the order of their values

constexpr std::string_view kArgumentKinds[] = {"scalar", "number", "tensor", "list"};
constexpr std::string_view kInputKinds[] = {"argument", "state", "constant"};

template <class Enum, size_t N> Enum readWord(const Json &json, const std::string_view (&words)[N]) {
  const auto &text = json.get_ref<const std::string &>();
  for (size_t i = 0; i < N; ++i)
    if (words[i] == text)
      return static_cast<Enum>(i);
  bad("'" + text + "' is no known word here");
}

// ---- the parts

Json write(const PlanArgument &argument) {
  Json json = {{"kind", kArgumentKinds[static_cast<size_t>(argument.kind)]}};
  if (argument.kind == PlanArgument::Kind::Scalar || argument.kind == PlanArgument::Kind::Number)
    json["value"] = write(argument.scalar);
  else
    json["slots"] = argument.slots;
  if (!argument.dtype.empty())
    json["dtype"] = argument.dtype;
  return json;
}

PlanArgument readArgument(const Json &json) {
  PlanArgument argument;
  argument.kind = readWord<PlanArgument::Kind>(json.at("kind"), kArgumentKinds);
  if (argument.kind == PlanArgument::Kind::Scalar || argument.kind == PlanArgument::Kind::Number)
    argument.scalar = readScalar(json.at("value"));
  else
    argument.slots = json.at("slots").get<std::vector<int>>();
  argument.dtype = json.value("dtype", "");
  return argument;
}

Json write(const Step &step) {
  if (const auto *commit = std::get_if<WritebackStep>(&step))
    return {{"writeback", commit->target}, {"source", commit->source}, {"release", commit->release}};
  if (const auto *leaves = std::get_if<LeavesStep>(&step))
    return {{"leaves", leaves->sources}, {"results", leaves->results}, {"release", leaves->release}};
  if (const auto *gradients = std::get_if<GradientsStep>(&step))
    return {{"gradients", gradients->outputs},      {"cotangents", gradients->cotangents},
            {"leaves", gradients->leaves},          {"results", gradients->results},
            {"strides", write(gradients->strides)}, {"operator", gradients->number},
            {"release", gradients->release}};
  if (const auto *rng = std::get_if<RngStep>(&step))
    return {{"rng", rng->devices}, {"waits", rng->waits}};
  const CallStep &call = std::get<CallStep>(step);
  Json arguments = Json::array();
  for (const PlanArgument &argument : call.arguments)
    arguments.push_back(write(argument));
  return {{"call", call.op},         {"arguments", arguments},  {"results", call.results},
          {"release", call.release}, {"ambient", call.ambient}, {"returned", call.returned}};
}

WritebackStep readWriteback(const Json &json) {
  WritebackStep step;
  step.target = json.at("writeback").get<int>();
  step.source = json.at("source").get<int>();
  step.release = json.at("release").get<std::vector<int>>();
  return step;
}

using Slots = std::vector<int>;

LeavesStep readLeaves(const Json &json) {
  return {json.at("leaves").get<Slots>(), json.at("results").get<Slots>(), json.at("release").get<Slots>()};
}

GradientsStep readGradients(const Json &json) {
  return {json.at("gradients").get<Slots>(), json.at("cotangents").get<Slots>(),
          json.at("leaves").get<Slots>(),    json.at("results").get<Slots>(),
          readScalars(json.at("strides")),   json.at("operator").get<int64_t>(),
          json.at("release").get<Slots>()};
}

RngStep readRng(const Json &json) {
  return {json.at("rng").get<std::vector<std::string>>(), json.at("waits").get<bool>()};
}

CallStep readCall(const Json &json) {
  CallStep call;
  call.op = json.at("call").get<std::string>();
  for (const Json &argument : json.at("arguments"))
    call.arguments.push_back(readArgument(argument));
  call.results = json.at("results").get<std::vector<int>>();
  call.release = json.at("release").get<std::vector<int>>();
  call.ambient = json.at("ambient").get<uint32_t>();
  call.returned = json.at("returned").get<bool>();
  return call;
}

Json write(const Ambient &ambient) {
  return {{"grad", ambient.grad},
          {"inference", ambient.inference},
          {"autocast", ambient.autocast},
          {"autocast_cache", ambient.autocastCache},
          {"autocast_dtype", ambient.autocastDtype},
          {"below", ambient.below}};
}

Ambient readAmbient(const Json &json) {
  return {json.at("grad").get<bool>(),
          json.at("inference").get<bool>(),
          json.at("autocast").get<bool>(),
          json.at("autocast_cache").get<bool>(),
          json.at("autocast_dtype").get<std::string>(),
          json.at("below").get<bool>()};
}

Json write(const PlanConstant &constant) {
  Json json = {{"slot", constant.slot},     {"dtype", constant.dtype},         {"sizes", constant.sizes},
               {"device", constant.device}, {"wrapped", constant.wrapped},     {"conj", constant.conj},
               {"neg", constant.neg},       {"value", write(constant.content)}};
  if (constant.strides)
    json["strides"] = *constant.strides;
  return json;
}

PlanConstant readConstant(const Json &json) {
  PlanConstant constant;
  constant.slot = json.at("slot").get<int>();
  constant.dtype = json.at("dtype").get<std::string>();
  constant.sizes = json.at("sizes").get<std::vector<int64_t>>();
  if (json.contains("strides"))
    constant.strides = json.at("strides").get<std::vector<int64_t>>();
  constant.device = json.at("device").get<std::string>();
  constant.wrapped = json.at("wrapped").get<bool>();
  constant.conj = json.at("conj").get<bool>();
  constant.neg = json.at("neg").get<bool>();
  constant.content = readScalar(json.at("value"));
  return constant;
}

Json write(const Settings &settings) {
  return {{"deterministic", settings.deterministic}, {"matmul", settings.matmul}};
}

Settings readSettings(const Json &json) {
  return {json.at("deterministic").get<std::string>(), json.at("matmul").get<std::string>()};
}

Plan read(const Json &json) {
  if (!json.is_object() || json.value("format", "") != kFormat)
    bad("it does not start with the format's name");
  if (json.at("version") != kVersion)
    bad(fmt::format("its version is {}, expected {}", json.at("version").dump(), kVersion));
  Plan plan;
  plan.name = json.at("name").get<std::string>();
  plan.device = json.at("device").get<std::string>();
  plan.settings = readSettings(json.at("settings"));
  plan.syms = json.at("syms").get<std::vector<std::string>>();
  plan.slots = json.at("slots").get<int>();
  for (const Json &ambient : json.at("ambients"))
    plan.ambients.push_back(readAmbient(ambient));
  for (const Json &input : json.at("inputs"))
    plan.inputs.push_back({readWord<PlanInput::Kind>(input.at("kind"), kInputKinds),
                           input.at("name").get<std::string>(), input.at("slot").get<int>()});
  for (const Json &constant : json.at("constants"))
    plan.constants.push_back(readConstant(constant));
  for (const Json &step : json.at("steps")) {
    if (step.contains("writeback"))
      plan.steps.emplace_back(readWriteback(step));
    else if (step.contains("gradients"))
      plan.steps.emplace_back(readGradients(step));
    else if (step.contains("leaves"))
      plan.steps.emplace_back(readLeaves(step));
    else if (step.contains("rng"))
      plan.steps.emplace_back(readRng(step));
    else
      plan.steps.emplace_back(readCall(step));
  }
  plan.outputs = json.at("outputs").get<std::vector<int>>();
  return plan;
}

} // namespace

bool operator==(const Scalar &a, const Scalar &b) {
  auto sameBits = [](double x, double y) { return std::memcmp(&x, &y, sizeof x) == 0; };
  return a.kind == b.kind && a.boolean == b.boolean && a.integer == b.integer && sameBits(a.real, b.real) &&
         sameBits(a.imaginary, b.imaginary) && a.text == b.text && a.items == b.items;
}

std::string toJson(const Plan &plan) {
  Json json = {{"format", kFormat},
               {"version", kVersion},
               {"name", plan.name},
               {"device", plan.device},
               {"settings", write(plan.settings)},
               {"syms", plan.syms},
               {"slots", plan.slots}};
  json["ambients"] = Json::array();
  for (const Ambient &ambient : plan.ambients)
    json["ambients"].push_back(write(ambient));
  json["inputs"] = Json::array();
  for (const PlanInput &input : plan.inputs)
    json["inputs"].push_back(
        {{"kind", kInputKinds[static_cast<size_t>(input.kind)]}, {"name", input.name}, {"slot", input.slot}});
  json["constants"] = Json::array();
  for (const PlanConstant &constant : plan.constants)
    json["constants"].push_back(write(constant));
  json["steps"] = Json::array();
  for (const Step &step : plan.steps)
    json["steps"].push_back(write(step));
  json["outputs"] = plan.outputs;
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Plan planFromJson(std::string_view text) {
  Plan plan;
  try {
    plan = read(Json::parse(text));
  } catch (const Json::exception &error) {
    bad(error.what());
  }
  validate(plan);
  return plan;
}

} // namespace graphopt::runtime
