// Results are handed to the program as filled placeholders, under watch: where the program looks at one past
// the dispatcher while recording, a later call will look too, and has to find a border at the same place.
#include "capture/segment_recorder.h"

#include "capture/dim_marks.h"
#include "capture/kept_casts.h"
#include "capture/keys.h"
#include "capture/operands.h"
#include "capture/tensor_type.h"
#include "capture/to_attr.h"
#include "capture/words.h"
#include "ir/effects.h"
#include "ir/graph.h"
#include "ir/op_table.h"

#include <ATen/ops/empty.h>
#include <graphopt/error.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace graphopt::capture {
namespace {

/// Contents of an untrusted operator's operands, to find writes that its schema does not name.
class ContentCheck {
public:
  ContentCheck(const OperatorFacts &facts, const torch::jit::Stack &stack) {
    if (facts.isTrusted)
      return;
    forEachOperand(facts, stack, [&](c10::TensorImpl &impl, const ArgumentFacts &argument) {
      if (!argument.isWritten && impl.layout() == c10::kStrided && impl.has_storage())
        before_.emplace_back(tensorOf(impl), bytesOf(tensorOf(impl)));
    });
  }
  bool changed() const {
    return std::any_of(before_.begin(), before_.end(),
                       [](const auto &item) { return bytesOf(item.first) != item.second; });
  }

private:
  static std::vector<char> bytesOf(const at::Tensor &tensor) {
    at::Tensor flat = tensor.detach().cpu().contiguous();
    const auto *data = static_cast<const char *>(flat.const_data_ptr());
    return {data, data + flat.nbytes()};
  }
  std::vector<std::pair<at::Tensor, std::vector<char>>> before_;
};

/// Positions, in schema order, of the tensor arguments that the operator writes though its schema does not
/// say so.
std::vector<size_t> findHiddenWrites(const OperatorFacts &facts, const std::vector<c10::IValue> &arguments) {
  ir::Graph scratch("scratch");
  std::vector<ir::Operand> operands;
  std::vector<ir::NamedAttr> attrs;
  std::vector<size_t> positions; // schema position of each operand
  for (size_t i = 0; i < facts.arguments.size(); ++i) {
    if (facts.arguments[i].role == ArgumentFacts::Role::Attr) {
      attrs.push_back({facts.arguments[i].name, toAttr(arguments[i], *facts.arguments[i].type)});
      continue;
    }
    positions.push_back(i);
    ir::Value *value = scratch.declare(ir::Value::Kind::Input, scratch.freshName("x"), ir::Type());
    operands.push_back(ir::Operand::of(value));
  }
  ir::Op *op = scratch.append(scratch.body(), ir::Op::Kind::Call, facts.name, operands, attrs);
  std::vector<size_t> hidden;
  for (size_t position : ir::hiddenWrites(*op))
    hidden.push_back(positions.at(position));
  return hidden;
}

template <class Map, class F> void eraseIf(Map &map, const F &isUnwanted) {
  for (auto it = map.begin(); it != map.end();)
    if (isUnwanted(*it))
      it = map.erase(it);
    else
      ++it;
}

/// The same, remembered: conditions of the table are about flags.
const std::vector<size_t> &hiddenWritesOf(const OperatorFacts &facts,
                                          const std::vector<c10::IValue> &arguments) {
  static const std::vector<size_t> none;
  if (!facts.hidesWrites)
    return none;
  static thread_local std::map<std::pair<const OperatorFacts *, uint64_t>, std::vector<size_t>> seen;
  uint64_t flags = 0;
  for (const c10::IValue &argument : arguments)
    flags = flags << 1 | static_cast<uint64_t>(argument.isBool() && argument.toBool());
  auto it = seen.find({&facts, flags});
  if (it == seen.end())
    it = seen.emplace(std::pair(&facts, flags), findHiddenWrites(facts, arguments)).first;
  return it->second;
}

} // namespace

/// Writes an argument's words into a row.
struct RecordingSink {
  SegmentRecorder &recorder;
  RowInfo &info;
  size_t argument = 0;
  bool bindsLate = false, mayVary = false;

  bool word(Word word) {
    recorder.scratch_.words.push_back(word);
    return true;
  }
  bool integer(Word value) {
    if (mayVary)
      recorder.scratch_.integers.push_back(here());
    return word(value);
  }
  bool real(double value) {
    if (bindsLate && !isSpecialNumber(value))
      recorder.scratch_.late.push_back(here());
    return word(std::bit_cast<Word>(value));
  }
  bool tensor(c10::TensorImpl &tensor) {
    bool isNew = false;
    ValueId value = recorder.operand(tensor, isNew);
    recorder.scratch_.tensorWords.push_back(here().word);
    info.operands[argument].push_back(value);
    return word(static_cast<Word>(value) | (isNew ? kFirstUse : 0));
  }
  LateScalar here() const {
    return {static_cast<uint32_t>(recorder.scratch_.words.size()), static_cast<uint32_t>(argument)};
  }
};

SegmentRecorder::SegmentRecorder(PlaceholderOwner &owner, Namer namer, SettingsId settings)
    : owner_(owner), namer_(std::move(namer)), members_(1) {
  // Rows and values are large: the first few hundred do not move.
  constexpr size_t kExpectedRows = 160, kExpectedValues = 480;
  segment_.rows.reserve(kExpectedRows);
  segment_.infos.reserve(kExpectedRows);
  segment_.values.reserve(kExpectedValues);
  members_.reserve(kExpectedValues);
  known_.reserve(kExpectedValues);
  families_.reserve(kExpectedValues);
  segment_.values.resize(1);
  segment_.settings = settings;
}

SegmentRecorder::~SegmentRecorder() {
  for (auto &[impl, known] : known_)
    if (known.isAlive())
      unwatchTensor(const_cast<c10::TensorImpl &>(*impl));
}

void SegmentRecorder::resume(const Segment &segment, size_t rows, const std::vector<at::Tensor> &tensors,
                             const std::vector<int64_t> &offsets) {
  size_t values = rows < segment.size() ? segment.infos[rows].valuesBefore : segment.values.size();
  segment_ = segment;
  segment_.rows.resize(rows);
  segment_.infos.erase(segment_.infos.begin() + static_cast<ptrdiff_t>(rows), segment_.infos.end());
  segment_.values.resize(values);
  for (size_t id = 1; id < values; ++id)
    segment_.values[id].metadata.offset = offsets[id];
  std::erase_if(segment_.liveIns, [&](ValueId id) { return static_cast<size_t>(id) >= values; });
  members_.assign(values, {});
  for (const RowInfo &info : segment_.infos)
    for (ValueId written : info.written)
      members_[segment_.values[written].family].isWritten = true;
  for (size_t id = 1; id < values && id < tensors.size(); ++id)
    if (tensors[id].defined())
      know(tensors[id], static_cast<ValueId>(id), segment_.values[id].isLiveIn,
           familyOf(storageOf(*tensors[id].unsafeGetTensorImpl())) == 0 ? Memory::New : Memory::Known);
}

void SegmentRecorder::know(const at::Tensor &tensor, ValueId id, bool isLiveIn, Memory memory) {
  c10::TensorImpl &impl = *tensor.unsafeGetTensorImpl();
  Known known{id, storageOf(impl), std::nullopt};
  watchTensor(impl, owner_); // a touch now is a touch later, when it may come before rows that are pending
  if (isLiveIn || !isPlaceholder(impl))
    known.hold.emplace(tensor.getIntrusivePtr());
  if (known.storage && memory == Memory::New)
    families_.insert_or_assign(
        known.storage, Family{segment_.values[id].family, impl.unsafe_storage().getWeakStorageImpl()});
  known_.insert_or_assign(&impl, std::move(known));
  ValueId &newest = members_[segment_.values[id].family].newest;
  members_[id].impl = &impl;
  members_[id].before = std::exchange(newest, id);
}

ValueId SegmentRecorder::familyOf(const c10::StorageImpl *storage) const {
  auto it = families_.find(storage);
  return it == families_.end() || it->second.hold.expired() ? 0 : it->second.family;
}

ValueId SegmentRecorder::declare(const at::Tensor &tensor, bool isLiveIn, ValueId family, Memory memory) {
  auto id = static_cast<ValueId>(segment_.values.size());
  SegmentValue &value = segment_.values.emplace_back();
  describe(tensor, value.metadata);
  value.isLiveIn = isLiveIn;
  value.family = family == 0 ? id : family;
  if (isLiveIn) {
    Name name = namer_(tensor);
    value.name = std::move(name.text);
    value.isParameter = name.isParameter;
    value.isBuffer = name.isBuffer;
    value.marks = marksOf(*tensor.unsafeGetTensorImpl());
    segment_.liveIns.push_back(id);
  }
  if (!tensor.device().is_cpu() && segment_.device.is_cpu())
    segment_.device = tensor.device();
  members_.emplace_back();
  know(tensor, id, isLiveIn, memory);
  return id;
}

ValueId SegmentRecorder::operand(c10::TensorImpl &tensor, bool &isNew) {
  if (&tensor == c10::UndefinedTensorImpl::singleton())
    return 0;
  auto it = known_.find(&tensor);
  if (it != known_.end())
    return it->second.value;
  isNew = true;
  at::Tensor self = tensorOf(tensor);
  ValueId family = familyOf(storageOf(tensor));
  return declare(self, true, family, family == 0 ? Memory::New : Memory::Known);
}

void SegmentRecorder::encode(Row &row, RowInfo &info, const torch::jit::Stack &stack) {
  const OperatorFacts &facts = *info.facts;
  const c10::IValue *values = stack.data() + (stack.size() - facts.arguments.size());
  info.operands.resize(facts.arguments.size());
  info.arguments.reserve(facts.arguments.size());
  auto &[words, tensorWords, late, integers] = scratch_;
  words.clear();
  tensorWords.clear();
  late.clear();
  integers.clear();
  RecordingSink sink{*this, info};
  WordReader<RecordingSink> reader(sink);
  for (size_t i = 0; i < facts.arguments.size(); ++i) {
    const ArgumentFacts &argument = facts.arguments[i];
    bool isTensor = argument.role != ArgumentFacts::Role::Attr;
    sink.argument = i;
    sink.bindsLate = argument.bindsLate;
    sink.mayVary = argument.isInteger && !facts.hidesWrites; // what is written is read off flags
    bool isEncoded = reader.boxed(values[i], isTensor, argument.isNumber);
    GO_ASSERT(isEncoded, "an argument without words: " + facts.name + " " + argument.name);
    bool isGivenList = isTensor && values[i].isList(); // which a missing one is not
    info.arguments.push_back(isTensor ? (isGivenList ? c10::IValue(true) : c10::IValue()) : values[i]);
  }
  info.words = words;
  info.tensorWords = tensorWords;
  info.late = late;
  info.integers = integers;
  row.isFactory =
      std::all_of(info.operands.begin(), info.operands.end(), [](const auto &ids) { return ids.empty(); });
}

void SegmentRecorder::takeWrites(RowInfo &info) {
  const OperatorFacts &facts = *info.facts;
  auto write = [&](size_t argument) {
    for (ValueId id : info.operands[argument])
      if (id != 0)
        info.written.push_back(id);
  };
  for (size_t i = 0; i < facts.arguments.size(); ++i)
    if (facts.arguments[i].isWritten)
      write(i);
  for (size_t position : hiddenWritesOf(facts, info.arguments))
    write(position);
}

/// Written tensors keep what the program may ask of them without an operator.
std::string SegmentRecorder::checkWritten(const RowInfo &info) const {
  for (ValueId written : info.written)
    for (ValueId id = members_[segment_.values[written].family].newest; id != 0; id = members_[id].before) {
      auto known = known_.find(members_[id].impl);
      if (known == known_.end() || known->second.value != id || !known->second.isAlive())
        continue;
      const Metadata &metadata = segment_.values[id].metadata;
      if (known->first->requires_grad() != metadata.requiresGrad)
        return "writes a tensor that gets a history by it";
      if (!matches(metadata, *known->first))
        return "changes the sizes or the memory of its argument";
    }
  return "";
}

/// The weights among the operands; none where autocast keeps no casts.
std::vector<std::pair<ValueId, at::Tensor>> SegmentRecorder::weights(const OperatorFacts &facts,
                                                                     const torch::jit::Stack &stack,
                                                                     ThreadWord thread) const {
  std::vector<std::pair<ValueId, at::Tensor>> found;
  if (!ThreadProbe::autocast(thread) || !ThreadProbe::autocastCache(thread))
    return found;
  forEachOperand(facts, stack, [&](c10::TensorImpl &impl, const ArgumentFacts &) {
    auto known = known_.find(&impl);
    if (known == known_.end() || !segment_.values[known->second.value].isLiveIn)
      return;
    const bool isNew =
        std::ranges::none_of(found, [&](const auto &weight) { return weight.first == known->second.value; });
    if (isNew && ThreadProbe::autocast(thread, impl.device().type()) && isCastKept(tensorOf(impl)))
      found.emplace_back(known->second.value, tensorOf(impl));
  });
  return found;
}

ValueId SegmentRecorder::takeResult(const RowInfo &info, at::Tensor &tensor, std::string &trouble) {
  if (!tensor.defined())
    return 0;
  auto it = known_.find(tensor.unsafeGetTensorImpl());
  if (it != known_.end())
    return it->second.value;
  std::string layout = unsupportedLayout(tensor);
  if (!layout.empty() || !tensor.unsafeGetTensorImpl()->unsafe_storage()) {
    trouble = layout.empty() ? "a result without memory" : layout;
    return 0;
  }
  if (tensor.use_count() > 1) {
    trouble = "a result that somebody else holds";
    return 0;
  }
  ValueId family = familyOf(storageOf(*tensor.unsafeGetTensorImpl()));
  bool mayBeView = std::any_of(info.operands.begin(), info.operands.end(), [&](const auto &ids) {
    return std::any_of(ids.begin(), ids.end(), [&](ValueId id) { return id != 0; });
  });
  tensor = Placeholder::adopt(std::move(tensor), static_cast<ValueId>(segment_.values.size()), owner_);
  return declare(tensor, false, mayBeView ? family : 0, family == 0 ? Memory::New : Memory::Known);
}

std::string SegmentRecorder::takeResults(RowInfo &info, torch::jit::Stack *stack) {
  std::string trouble;
  auto take = [&](at::Tensor tensor) {
    info.results.push_back(takeResult(info, tensor, trouble));
    return tensor;
  };
  size_t count = info.facts->returns;
  for (size_t i = stack->size() - count; i < stack->size(); ++i) {
    c10::IValue &value = (*stack)[i];
    if (value.isTensor()) {
      value = take(std::move(value).toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> taken;
      std::vector<at::Tensor> items = value.toTensorVector();
      value = c10::IValue(); // the list held them
      for (at::Tensor &item : items)
        taken.push_back(take(std::move(item)));
      value = std::move(taken);
    } else if (!value.isNone()) {
      trouble = "returns plain values beside tensors";
    }
  }
  return trouble;
}

void SegmentRecorder::rollBack(size_t values) {
  eraseIf(known_, [&](const auto &entry) {
    bool isNew = static_cast<size_t>(entry.second.value) >= values;
    if (isNew && entry.second.isAlive())
      unwatchTensor(const_cast<c10::TensorImpl &>(*entry.first));
    return isNew;
  });
  std::erase_if(segment_.liveIns, [&](ValueId id) { return static_cast<size_t>(id) >= values; });
  eraseIf(families_, [&](const auto &entry) { return static_cast<size_t>(entry.second.family) >= values; });
  for (size_t id = segment_.values.size(); id-- > values;) { // the newest first
    ValueId &newest = members_[segment_.values[id].family].newest;
    if (newest == static_cast<ValueId>(id))
      newest = members_[id].before;
  }
  segment_.values.resize(values);
  members_.resize(values);
}

std::string SegmentRecorder::add(const c10::OperatorHandle &op, const OperatorFacts &facts,
                                 c10::DispatchKeySet keys, ThreadWord thread, torch::jit::Stack *stack,
                                 std::string module) {
  size_t before = segment_.values.size();
  Row row;
  RowInfo info;
  info.op = op;
  info.facts = &facts;
  info.valuesBefore = before;
  info.module = std::move(module);
  c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
  c10::impl::PODLocalDispatchKeySet pod{};
  pod.set_included(local.included_.remove(kCaptureHigh));
  pod.set_excluded(local.excluded_);
  info.keys = c10::impl::LocalDispatchKeySet(pod);
  info.autograd = c10::AutogradState::get_tls_state();
  row.op = &op.operator_name();
  row.keys = keys.raw_repr();
  row.thread = thread;
  row.isRandom = draws(facts, stack->data() + (stack->size() - facts.arguments.size()));
  encode(row, info, *stack);
  // LibTorch's own factories work below this key, torch::tensor() ends with to(); they take the result over
  // when nobody else holds it.
  row.isFactory |= info.keys.excluded_.has(c10::DispatchKey::ADInplaceOrView) || facts.base == "to";
  takeWrites(info);
  ContentCheck contents(facts, *stack);
  const auto taken = weights(facts, *stack, thread);
  try {
    op.redispatchBoxed(keys, stack);
  } catch (...) {
    rollBack(before);
    throw;
  }
  std::string trouble = contents.changed() ? "writes an operand that its schema does not name" : "";
  if (trouble.empty())
    trouble = checkWritten(info);
  if (trouble.empty())
    trouble = takeResults(info, stack);
  if (!trouble.empty()) {
    rollBack(before);
    return trouble;
  }
  for (const auto &[value, weight] : taken) {
    const bool isKept = hasKeptCast(weight);
    info.weights.push_back({value, isKept, isKept && keptCast(weight).requires_grad()});
  }
  for (ValueId written : info.written)
    members_[segment_.values[written].family].isWritten = true;
  if (keys.has(c10::DispatchKey::AutocastCUDA) || keys.has(c10::DispatchKey::AutocastCPU))
    noteCasting(keys.has(c10::DispatchKey::AutocastCUDA) ? c10::kCUDA : c10::kCPU);
  segment_.rows.push_back(row);
  segment_.infos.push_back(std::move(info));
  return "";
}

/// An operator that autocast has on its list for a device.
void SegmentRecorder::noteCasting(c10::DeviceType device) {
  if (device != segment_.device.type())
    segment_.device = c10::Device(device);
}

bool SegmentRecorder::isPending(const c10::TensorImpl &tensor) const {
  auto it = known_.find(&tensor);
  if (it == known_.end())
    return false;
  const SegmentValue &value = segment_.values[it->second.value];
  return !value.isLiveIn || members_[value.family].isWritten;
}

bool SegmentRecorder::wasReplaced(const c10::TensorImpl &tensor) const {
  auto it = known_.find(&tensor);
  if (it == known_.end())
    return false;
  return it->second.storage != storageOf(tensor) ||
         !matches(segment_.values[it->second.value].metadata, tensor);
}

bool SegmentRecorder::writesLiveIns() const {
  for (size_t id = 1; id < segment_.values.size(); ++id)
    if (members_[id].isWritten && segment_.values[id].isLiveIn)
      return true;
  return false;
}

bool SegmentRecorder::isMadeHere(const c10::TensorImpl &tensor) const {
  auto it = known_.find(&tensor);
  return it != known_.end() && !segment_.values[segment_.values[it->second.value].family].isLiveIn;
}

size_t SegmentRecorder::ownersOf(const c10::StorageImpl *storage) const {
  return static_cast<size_t>(std::count_if(known_.begin(), known_.end(), [&](const auto &entry) {
    return storageOf(*entry.first) == storage && entry.second.isAlive();
  }));
}

Segment SegmentRecorder::finish(std::string border) {
  segment_.border = std::move(border);
  if (segment_.values.size() < segment_.values.capacity() / 2) { // it is kept for long
    segment_.rows.shrink_to_fit();
    segment_.infos.shrink_to_fit();
    segment_.values.shrink_to_fit();
  }
  segment_.settle();
  return std::move(segment_);
}

} // namespace graphopt::capture
