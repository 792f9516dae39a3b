// One pass over the calls. Everything that needs the whole recording is worked out before it: which declared
// values are used, which host values were written and so need a copy of their own, what results are called.
#include "capture/graph_builder.h"

#include "capture/naming.h"
#include "capture/provenance.h"
#include "capture/tensor_type.h"
#include "capture/to_attr.h"
#include "ir/content_hash.h"
#include "ir/op_table.h"
#include "ir/settings.h"

#include <algorithm>
#include <graphopt/error.h>

namespace graphopt::capture {
namespace {

using ir::Mark;
using ir::Operand;
using Kind = ir::Value::Kind;

constexpr int64_t kInlineElements = 16;

bool hasLiterals(c10::ScalarType type) {
  bool isPlainFloat = type == at::kHalf || type == at::kBFloat16 || type == at::kFloat || type == at::kDouble;
  bool isPlainComplex = type == at::kComplexFloat || type == at::kComplexDouble;
  bool isPlainInteger = c10::isIntegralType(type, /*includeBool=*/true) && type != c10::ScalarType::UInt64;
  return isPlainFloat || isPlainComplex || isPlainInteger;
}

std::string contentHashOf(const at::Tensor &tensor) {
  at::Tensor flat = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous();
  return ir::contentHash(flat.scalar_type(), {flat.sizes().data(), flat.sizes().size()},
                         {static_cast<const char *>(flat.const_data_ptr()), flat.nbytes()});
}

class GraphBuilder {
public:
  GraphBuilder(Recorded &recorded, const CaptureOptions &options)
      : recorded_(recorded), trace_(recorded.trace), values_(trace_.values.size(), nullptr),
        names_(resultNames(trace_)), provenance_(trace_) {
    capture_.graph = ir::Graph(options.graphName);
    capture_.graph.device = toDevice(recorded.device);
    capture_.graph.settings = {{"deterministic", ir::Attr::word(recorded.process.deterministic)}};
    if (std::ranges::find(ir::kMatmulWords, recorded.process.matmul) !=
        ir::kMatmulWords.end()) // else its guard alone says it
      capture_.graph.settings.push_back({"matmul", ir::Attr::word(recorded.process.matmul)});
  }

  Capture build() {
    settleHostValues();
    declareUsed();
    copyWrittenConstants();
    for (size_t i = 0; i < trace_.calls.size(); ++i)
      addCall(trace_.calls[i], names_[i]);
    addOverlapBorders();
    if (processState() != recorded_.process)
      border("untraced", {},
             "a switch of the process (deterministic, matmul, sdp, cudnn) was changed in the call", "");
    addReturn();
    recorded_.writesDeclared =
        std::any_of(written_.begin(), written_.end(), [&](FamilyId family) { return isDeclared(family); });
    capture_.arguments = recorded_.arguments;
    capture_.argumentNames = recorded_.argumentNames;
    capture_.output = recorded_.output;
    for (ValueId input : recorded_.inputs)
      capture_.inputs.push_back(values_[input]);
    return std::move(capture_);
  }

private:
  void settleHostValues();
  void declareUsed();
  void declare(ValueId id);
  void copyWrittenConstants();
  void addCall(TraceCall &call, const std::string &name);
  void addOp(TraceCall &call, const std::string &name);
  void addRead(const TraceCall &call);
  std::vector<FamilyId> markHiddenWrites(ir::Op *op, const TraceCall &call);
  void addOverlapBorders();
  void addReturn();
  void border(const char *what, std::vector<Operand> operands, const std::string &reason,
              const std::string &at);
  uint32_t stateOf(const TraceCall &call);
  /// Whether the graph got the family's memory from outside: not so for a constant that was copied.
  bool isDeclared(FamilyId family) const {
    const ir::Value *base = values_[trace_.families[family].base()];
    return base && base->isDeclared();
  }
  std::vector<Operand> operandsOf(const std::vector<TraceOperand> &operands) const;
  std::vector<Operand> readOf(const TraceCall &call) const;

  Recorded &recorded_;
  Trace &trace_;
  Capture capture_;
  std::vector<ir::Value *> values_; // by ValueId
  std::vector<std::string> names_;  // by call
  Provenance provenance_;
  std::vector<FamilyId> written_; // in order of the first write
  AmbientState lastAmbient_;
  int32_t lastScope_ = kNone;
  uint32_t lastState_ = 0;
};

/// A 0-dim tensor that the program wrote and still holds is state of its own, not a number passed in.
void GraphBuilder::settleHostValues() {
  for (const TraceCall &call : trace_.calls) {
    for (FamilyId family : call.writes) {
      if (std::find(written_.begin(), written_.end(), family) == written_.end())
        written_.push_back(family);
      TraceValue &base = trace_.values[trace_.families[family].base()];
      if (base.kind == Kind::HostVal && base.weak && !base.weak->expired())
        base.kind = Kind::Outside;
    }
  }
}

void forEachValue(const std::vector<TraceOperand> &operands, const std::function<void(ValueId)> &f) {
  for (const TraceOperand &operand : operands) {
    forEachValue(operand.items, f);
    if (operand.value != kNone)
      f(operand.value);
  }
}

void GraphBuilder::declareUsed() {
  std::vector<bool> used(trace_.values.size(), false);
  for (const TraceCall &call : trace_.calls)
    forEachValue(call.operands, [&](ValueId id) { used[id] = true; });
  for (ValueId id : recorded_.outputs)
    used[id] = true;
  for (ValueId id : recorded_.inputs)
    used[id] = true;
  for (size_t id = 0; id < used.size(); ++id)
    if (used[id] && trace_.values[id].kind != Kind::Result)
      declare(static_cast<ValueId>(id));
}

void GraphBuilder::declare(ValueId id) {
  TraceValue &value = trace_.values[id];
  std::string base = value.name;
  if (base.empty())
    base = value.kind == Kind::HostVal ? "n" : value.kind == Kind::Const ? "k" : "out";
  ir::Type type = relativeTo(capture_.graph.device, value.type);
  type.grad = value.requiresGrad;
  ir::Value *declared = capture_.graph.declare(value.kind, capture_.graph.freshName(base), std::move(type));
  values_[id] = declared;
  if (value.kind == Kind::Input)
    return;
  Bound bound;
  bound.value = declared;
  bound.outside = value.kind == Kind::Outside;
  bound.weak = value.weak;
  if (!bound.outside)
    bound.tensor = value.held;
  if (value.kind == Kind::HostVal || value.kind == Kind::Const) {
    bool isSmall = value.held.numel() <= kInlineElements && hasLiterals(value.held.scalar_type());
    if (isSmall)
      declared->content = contentOf(value.held);
    else
      declared->contentHash = contentHashOf(value.held);
  }
  capture_.bound.push_back(std::move(bound));
}

/// Constants stay what they are: an operator that writes one gets a copy, made anew at each call.
void GraphBuilder::copyWrittenConstants() {
  for (FamilyId family : written_) {
    ValueId id = trace_.families[family].base();
    const TraceValue &value = trace_.values[id];
    bool isCopied = value.kind == Kind::HostVal || (value.kind == Kind::Const && !value.isHostMemory);
    if (!isCopied || !values_[id])
      continue;
    ir::Op *copy = capture_.graph.append(
        capture_.graph.body(), ir::Op::Kind::Call, "aten.clone", {Operand::of(values_[id])}, {},
        {{values_[id]->name, relativeTo(capture_.graph.device, value.type)}});
    values_[id] = copy->result();
  }
}

std::vector<Operand> GraphBuilder::operandsOf(const std::vector<TraceOperand> &operands) const {
  std::vector<Operand> out;
  out.reserve(operands.size());
  for (const TraceOperand &operand : operands) {
    if (operand.isList)
      out.push_back(Operand::list(operandsOf(operand.items)));
    else if (operand.value == kNone)
      out.push_back(Operand::none());
    else
      out.push_back(Operand::of(values_[operand.value], operand.mark));
  }
  return out;
}

std::vector<Operand> GraphBuilder::readOf(const TraceCall &call) const {
  std::vector<Operand> out;
  forEachValue(call.operands, [&](ValueId id) { out.push_back(Operand::of(values_[id])); });
  return out;
}

uint32_t GraphBuilder::stateOf(const TraceCall &call) {
  if (call.scope == lastScope_ && call.ambient == lastAmbient_)
    return lastState_;
  const TraceScope &scope = trace_.scopes[call.scope];
  lastScope_ = call.scope;
  lastAmbient_ = call.ambient;
  return lastState_ = capture_.graph.intern({scope.path, scope.isGuessed, ambientWords(call.ambient)});
}

void GraphBuilder::border(const char *what, std::vector<Operand> operands, const std::string &reason,
                          const std::string &at) {
  ir::Op *op = capture_.graph.append(capture_.graph.body(), ir::Op::Kind::Border, what, std::move(operands));
  op->number = static_cast<int>(capture_.stats.borders++);
  op->attrs = {{"reason", ir::Attr::string(reason)},
               {"at", ir::Attr::string(at)},
               {"seq", ir::Attr::integer(static_cast<int64_t>(capture_.stats.operators))}};
}

/// at::equal of a value with itself: true, unless the dtype has nan.
bool isTriviallyEqual(const Trace &trace, const TraceCall &call) {
  if (call.name != "aten.equal" || call.operands[0].value != call.operands[1].value)
    return false;
  ir::DType dtype = trace.values[call.operands[0].value].type.dtype;
  return ir::isInteger(dtype) || dtype == ir::DType::Bool;
}

void GraphBuilder::addRead(const TraceCall &call) {
  if (provenance_.isKnown(call) || isTriviallyEqual(trace_, call)) {
    ++capture_.stats.followedReads;
    return;
  }
  // set_data() is no operator; this question is all that is seen of it.
  bool isSetData = call.facts->base == "_has_compatible_shallow_copy_type";
  border("read", readOf(call), isSetData ? "set_data" : call.facts->base, trace_.scopes[call.scope].path);
}

void GraphBuilder::addCall(TraceCall &call, const std::string &name) {
  if (call.isErased)
    return;
  if (call.facts && call.facts->readsData)
    addRead(call);
  else if (call.facts)
    addOp(call, name);
  if (!call.border.empty())
    border("untraced", call.facts ? readOf(call) : std::vector<Operand>(),
           call.facts ? call.facts->base + ": " + call.border : call.border, trace_.scopes[call.scope].path);
}

std::vector<FamilyId> GraphBuilder::markHiddenWrites(ir::Op *op, const TraceCall &call) {
  std::vector<FamilyId> families;
  for (size_t position : ir::hiddenWrites(*op)) {
    Operand operand = op->operands().at(position);
    operand.mark = Mark::Write;
    op->setOperand(position, operand);
    FamilyId family = trace_.values[call.operands.at(position).value].family;
    families.push_back(family);
    if (std::find(written_.begin(), written_.end(), family) == written_.end())
      written_.push_back(family);
  }
  return families;
}

/// Whether a call names a place in its operand's storage, counted from the storage's start.
bool countsFromStorage(const TraceCall &call) {
  if (!call.facts->base.starts_with("as_strided"))
    return false;
  return std::any_of(call.attrs.begin(), call.attrs.end(), [](const ir::NamedAttr &attr) {
    return attr.name == "storage_offset" && !attr.value.isNone();
  });
}

void GraphBuilder::addOp(TraceCall &call, const std::string &name) {
  if (countsFromStorage(call))
    recorded_.countedFromStorage.push_back(trace_.values[call.operands.at(0).value].family);
  ir::Op *op = capture_.graph.append(capture_.graph.body(), ir::Op::Kind::Call, std::string(call.name),
                                     operandsOf(call.operands), std::move(call.attrs));
  for (ValueId id : call.results) // whose sizes nobody asks the trace for any more
    values_[id] = capture_.graph.addResult(op, name, std::move(trace_.values[id].type));
  op->state = call.isSynthetic ? lastState_ : stateOf(call);
  ++capture_.stats.operators;
  ir::Effects effects = ir::effectsOf(*op, nullptr);
  bool readsSizes = effects.hostRead || (call.facts->sizesFromData && !ir::findAten(call.name));
  bool known = provenance_.isKnown(call);
  provenance_.advance(call, effects, effects.writes ? markHiddenWrites(op, call) : std::vector<FamilyId>());
  if (readsSizes && known)
    ++capture_.stats.followedReads;
  else if (readsSizes)
    border("read", readOf(call), call.facts->base, trace_.scopes[call.scope].path);
}

/// A write that another declared value would see through other sizes: no pass can follow it.
void GraphBuilder::addOverlapBorders() {
  for (FamilyId family : written_) {
    std::vector<Operand> declared;
    for (ValueId id : trace_.families[family].values)
      if (trace_.values[id].kind != Kind::Result && values_[id])
        declared.push_back(Operand::of(values_[id]));
    if (declared.size() > 1)
      border("untraced", std::move(declared), "writes memory that another declared value shares", "");
  }
}

void GraphBuilder::addReturn() {
  std::vector<Operand> operands;
  for (ValueId id : recorded_.outputs) {
    const TraceValue &value = trace_.values[id];
    bool isAlias = values_[id]->isDeclared() || isDeclared(value.family);
    operands.push_back(Operand::of(values_[id], isAlias ? Mark::Alias : Mark::None));
  }
  capture_.graph.append(capture_.graph.body(), ir::Op::Kind::Return, "", std::move(operands));
}

} // namespace

Capture buildCapture(Recorded &recorded, const CaptureOptions &options) {
  return GraphBuilder(recorded, options).build();
}

} // namespace graphopt::capture
