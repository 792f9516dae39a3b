// The facts of a recorded call that must hold again for its graph to stand for another one, in the order in
// which they are likely to fail.
#include "capture/argument_names.h"
#include "capture/graph_builder.h"
#include "capture/live_tensors.h"
#include "capture/to_attr.h"

#include <ATen/autocast_mode.h>

#include <set>

namespace graphopt::capture {
namespace {

using ir::Attr;
using ir::Operand;
using Kind = ir::Value::Kind;

/// Moved, where braces would copy.
std::vector<Operand> one(Operand operand) {
  std::vector<Operand> operands;
  operands.push_back(std::move(operand));
  return operands;
}

class GuardWriter {
public:
  GuardWriter(ir::Graph &graph, size_t expected) : graph_(graph) { graph_.guards.reserve(expected); }

  void add(const char *kind, std::vector<Operand> operands, std::variant<Attr, ir::Type> expected) {
    ir::Guard guard;
    guard.number = static_cast<int>(graph_.guards.size());
    guard.kind = kind;
    guard.operands = std::move(operands);
    guard.expected = std::move(expected);
    graph_.guards.push_back(std::move(guard));
  }
  void word(const char *kind, std::vector<Operand> operands, std::string word) {
    add(kind, std::move(operands), Attr::word(std::move(word)));
  }
  void meta(ir::Value *value) { add("meta", one(Operand::of(value)), value->type); }

private:
  ir::Graph &graph_;
};

Operand name(const std::string &text) { return Operand::lit(Attr::string(text)); }

void addArguments(GuardWriter &guards, const Capture &capture) {
  for (const ir::Value *value : capture.graph.declarations())
    if (value->kind == Kind::Input)
      guards.meta(const_cast<ir::Value *>(value));
  std::vector<std::string> names = leafNames(capture.arguments, capture.argumentNames);
  for (size_t i = 0; i < names.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (capture.inputs[i] == capture.inputs[j]) {
        guards.word("same", {name(names[j]), name(names[i])}, "on");
        break;
      }
  for (const NamedConstant &constant : constantsOf(capture.arguments, capture.argumentNames)) {
    bool isMissing = constant.value->isTensor(); // an undefined one
    guards.add("argument", {name(constant.name)}, isMissing ? Attr() : toAttr(*constant.value));
  }
}

void addState(GuardWriter &guards, const EntryState &entry, const Recorded &recorded,
              const ir::Graph &graph) {
  guards.word("grad_mode", {}, onOff(entry.ambient.grad));
  guards.word("inference_mode", {}, onOff(entry.ambient.inference));
  auto autocast = [&](c10::DeviceType device, const std::string &word) {
    guards.word("autocast", one(Operand::lit(Attr::word(c10::DeviceTypeName(device, true)))), word);
  };
  autocast(recorded.device.type(), entry.autocast);
  if (!recorded.device.is_cpu())
    autocast(c10::kCPU, entry.hostAutocast);
  if (entry.ambient.autocast)
    guards.word("autocast_cache", {}, entry.autocastCache);
  guards.word("default_dtype", {}, entry.defaultDtype);
  guards.word("deterministic", {}, recorded.process.deterministic);
  guards.word("matmul_precision", {}, recorded.process.matmul);
  for (const auto &[setting, word] : switchesFor(graph, recorded.process))
    guards.word("setting", one(name(std::string(setting))), word);
}

/// Pairs of declared values that overlap; and, when memory of a declared value is written, that the others
/// stay apart.
void addAliases(GuardWriter &guards, const std::vector<LiveTensors::Entry> &live, bool writesDeclared) {
  for (size_t i = 0; i < live.size(); ++i) {
    Kind kind = live[i].value->kind;
    if (kind != Kind::Input && kind != Kind::Outside)
      continue; // parameters and buffers do not come anew at each call
    bool isAlone = true;
    for (size_t j = 0; j < live.size(); ++j) {
      if (i == j || !overlap(live[i].tensor, live[j].tensor))
        continue;
      isAlone = false;
      bool wasNamed = j < i && (live[j].value->kind == Kind::Input || live[j].value->kind == Kind::Outside);
      if (!wasNamed)
        guards.word("alias", {Operand::of(live[i].value), Operand::of(live[j].value)}, "overlap");
    }
    if (writesDeclared && isAlone)
      guards.word("unshared", {Operand::of(live[i].value)}, "on");
  }
}

/// Where declared values begin in their storage, where some operator counts from the storage's start.
void addOffsets(GuardWriter &guards, const std::vector<LiveTensors::Entry> &live, const Recorded &recorded) {
  const std::set<FamilyId> families(recorded.countedFromStorage.begin(), recorded.countedFromStorage.end());
  if (families.empty())
    return;
  for (const TraceValue &value : recorded.trace.values) {
    if (!value.weak || !families.contains(value.family))
      continue;
    for (const LiveTensors::Entry &entry : live)
      if (value.weak->_unsafe_get_target() == entry.tensor.unsafeGetTensorImpl())
        guards.add("offset", {Operand::of(entry.value)}, Attr::integer(value.offset));
  }
}

} // namespace

EntryState entryState(c10::DeviceType device) {
  return {ambientNow(device), autocastWord(device), autocastWord(c10::kCPU),
          onOff(at::autocast::is_autocast_cache_enabled()), defaultDtypeWord()};
}

void addGuards(Capture &capture, const Recorded &recorded, const EntryState &entry,
               const std::vector<at::Tensor> &leaves) {
  constexpr size_t kOfState = 16; // guards that every graph has, and some
  GuardWriter guards(capture.graph, capture.graph.declarations().size() + kOfState);
  addArguments(guards, capture);
  addState(guards, entry, recorded, capture.graph);
  for (const Bound &bound : capture.bound)
    if (bound.value->kind != Kind::HostVal && bound.value->kind != Kind::Const)
      guards.meta(bound.value);
  const LiveTensors live(capture, leaves);
  addAliases(guards, live.all(), recorded.writesDeclared);
  addOffsets(guards, live.all(), recorded);
}

} // namespace graphopt::capture
