// Other sizes and integers than those recorded. A call that differs from a recorded segment only in what may
// vary is put off as any other, against a copy of that segment which belongs to the frame and follows the
// calls: where an operand's sizes or an integer are others than at the last call, the row is *stale*, and its
// results are worked out again when its operator comes. All other rows are matched the fast way, so a
// position that moves costs a few rows, and new sizes cost most of them, once.
//
// A stale row has no operator in its Row, which the fast way therefore never takes.
#include "capture/dim_marks.h"
#include "capture/frame.h"
#include "capture/shapes.h"
#include "capture/words.h"

#include <algorithm>

namespace graphopt::capture {
namespace {

/// Whether a live-in may have another size than the template's.
bool mayVary(const Template &from, ValueId id, uint32_t dim, int64_t size, const std::vector<DimMark> &marks,
             Dynamic policy) {
  const SegmentValue &value = from.base->segment.values[id];
  const DimMark *mark = markOf(marks, dim);
  mark = mark ? mark : markOf(value.marks, dim);
  if (mark)
    return mark->isDynamic && size >= mark->least && size <= mark->most;
  if (isSpecialSize(size) || isSpecialSize(value.metadata.sizes[dim]))
    return false;
  if (policy == Dynamic::always)
    return !value.isParameter && !value.isBuffer;
  const std::vector<Varying::Dim> &dims = from.varying->dims;
  return std::find(dims.begin(), dims.end(), Varying::Dim{id, dim}) != dims.end();
}

bool mayVary(const Template &from, uint32_t row, uint32_t word, Dynamic policy) {
  const std::vector<LateScalar> &integers = from.base->segment.infos[row].integers;
  bool isInteger = std::any_of(integers.begin(), integers.end(),
                               [&](const LateScalar &integer) { return integer.word == word; });
  const std::vector<Varying::Integer> &seen = from.varying->integers;
  return isInteger && (policy == Dynamic::always ||
                       std::find(seen.begin(), seen.end(), Varying::Integer{row, word}) != seen.end());
}

/// Whether anything may differ from the template at all.
bool isOpen(const Template &from, Dynamic policy) {
  const std::vector<SegmentValue> &values = from.base->segment.values;
  return policy == Dynamic::always || !from.varying->dims.empty() || !from.varying->integers.empty() ||
         (anyMarks() && std::any_of(values.begin(), values.end(),
                                    [](const SegmentValue &value) { return !value.marks.empty(); }));
}

/// The template's metadata with the tensor's sizes and strides; nothing when the tensor differs in what may
/// not vary, or lies in memory in another way.
std::optional<Metadata> varied(const Template &from, ValueId id, const c10::TensorImpl &tensor,
                               Dynamic policy) {
  Metadata metadata = from.base->segment.values[id].metadata;
  if (tensor.dim() != static_cast<int64_t>(metadata.sizes.size()))
    return std::nullopt;
  const std::vector<DimMark> marks = marksOf(tensor);
  bool isOther = false;
  for (uint32_t dim = 0; dim < metadata.sizes.size(); ++dim) {
    int64_t size = tensor.sizes()[dim];
    if (size == metadata.sizes[dim])
      continue;
    isOther = true;
    if (!mayVary(from, id, dim, size, marks, policy))
      return std::nullopt;
  }
  if (isOther) {
    if (std::optional<Sizes> strides = denseStrides(tensor.sizes(), metadata))
      metadata.strides = std::move(*strides);
    metadata.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  }
  return matches(metadata, tensor) ? std::optional(metadata) : std::nullopt;
}

} // namespace

/// Compares a call's words with a derived row's, taking over what may vary.
struct DerivingSink {
  Frame &frame;
  const Template &from;
  size_t row;
  RowInfo &info;
  bool isOther; ///< the results have to be worked out again
  size_t position = 0;
  bool isOtherArgument = false;

  bool word(Word word) { return info.words[position++] == word; }
  bool integer(Word value) {
    Word &known = info.words[position++];
    if (known == value)
      return true;
    if (!mayVary(from, static_cast<uint32_t>(row), static_cast<uint32_t>(position - 1),
                 frame.graph_.dynamic()))
      return false;
    known = value;
    return isOther = isOtherArgument = true;
  }
  bool real(double value) {
    const Word *word = &info.words[position++];
    return *word == std::bit_cast<Word>(value) || frame.bindScalar(word, value);
  }
  bool tensor(c10::TensorImpl &tensor) {
    Word word = info.words[position++];
    ValueId value = valueOf(word);
    return word & kFirstUse ? frame.bindVarying(value, tensor, isOther) : frame.slots_[value].is(tensor);
  }
};

Frame::Derivation *Frame::deriving() const { return active_ ? active_->derivation.get() : nullptr; }

/// Metadata of a value of the active, derived segment: what was made with the old one goes, and rows from
/// `row` on that use it are stale.
void Frame::setMetadata(Activation &activation, ValueId id, Metadata metadata, size_t row) {
  Segment &segment = activation.node->segment;
  Metadata &known = segment.values[id].metadata;
  if (known == metadata && known.offset == metadata.offset)
    return;
  known = std::move(metadata);
  for (uint32_t user : activation.derivation->users[id])
    if (user >= row)
      segment.rows[user].op = nullptr;
  if (segment.values[id].isLiveIn)
    return;
  activation.placeholders[id].reset();
  activation.slots[id] = {};
}

bool Frame::bindVarying(ValueId value, c10::TensorImpl &tensor, bool &isOther) {
  Derivation &derivation = *deriving();
  if (!sameLayout(active_->node->segment.values[value].metadata, tensor)) {
    std::optional<Metadata> metadata = varied(derivation.from, value, tensor, graph_.dynamic());
    if (!metadata)
      return false;
    active_->kept[bound_].forget(); // it was kept with the old sizes
    setMetadata(*active_, value, std::move(*metadata), matched_);
    isOther = derivation.hasOtherSizes = true;
  }
  return bindAnew(value, tensor);
}

/// This frame's segment that follows the calls, of the template's family.
Frame::Activation &Frame::followerOf(Template from) {
  for (auto &[node, activation] : activations_)
    if (activation->derivation && activation->derivation->from.base == from.base) {
      activation->derivation->from = std::move(from);
      return *activation;
    }
  auto node = std::make_shared<SegmentNode>();
  Segment &segment = node->segment = from.base->segment;
  node->isDerived = true;
  node->base = from.base;
  node->verification = from.base->verification;
  auto derivation = std::make_unique<Derivation>();
  derivation->users.resize(segment.values.size());
  for (uint32_t i = 0; i < segment.size(); ++i) {
    segment.rows[i].words = segment.infos[i].words.data();
    segment.rows[i].results = segment.infos[i].results.data();
    for (const ValueIds &ids : segment.infos[i].operands)
      for (ValueId id : ids)
        derivation->users[id].push_back(i);
  }
  derivation->from = std::move(from);
  Activation &activation = activationOf(node);
  activation.derivation = std::move(derivation);
  return activation;
}

/// Makes the first rows and values of a derived segment those of the active one.
void Frame::adoptPrefix(Activation &derived, size_t rows) {
  const Segment &current = active_->node->segment;
  Segment &segment = derived.node->segment;
  for (size_t place = 0; place < bound_; ++place) {
    ValueId id = segment.liveIns[place];
    if (!(segment.values[id].metadata == current.values[id].metadata))
      derived.kept[place].forget();
  }
  for (size_t id = 1; id < current.valuesBefore(rows); ++id)
    setMetadata(derived, static_cast<ValueId>(id), current.values[id].metadata, rows);
  for (size_t i = 0; i < rows; ++i) {
    segment.rows[i].op = current.rows[i].op;
    if (segment.infos[i].words == current.infos[i].words)
      continue;
    std::ranges::copy(current.infos[i].words, segment.infos[i].words.begin());
    segment.infos[i].arguments = current.infos[i].arguments;
  }
}

/// The results of a stale row.
bool Frame::deriveResultsOf(size_t row) {
  RunningScope running(isRunning_);
  const SegmentNode &base = *deriving()->from.base;
  std::atomic<ShapeSource> &source = base.shapeSources[row];
  if (source == ShapeSource::Unknown)
    source = shapeSource(base.segment, row);
  std::optional<std::vector<DerivedResult>> results =
      deriveResults(source, base.segment, row, active_->node->segment);
  if (!results && source == ShapeSource::None)
    host_.onUnknownShape(base.segment.infos[row].facts->name);
  if (!results)
    return false;
  for (DerivedResult &result : *results)
    setMetadata(*active_, result.value, std::move(result.metadata), row + 1);
  return true;
}

/// The next row, against the call. False: what was bound for it is free again.
bool Frame::deriveRow(const OperatorFacts &facts, c10::DispatchKeySet keys, const torch::jit::Stack &stack) {
  Derivation &derivation = *deriving();
  Segment &segment = active_->node->segment;
  Row &row = segment.rows[matched_];
  RowInfo &info = segment.infos[matched_];
  if (!stateMatches(row, keys))
    return false;
  derivation.from.varying = graph_.varyingOf(derivation.from.base);
  DerivingSink sink{*this, derivation.from, matched_, info, /*isOther=*/row.op == nullptr};
  WordReader<DerivingSink> reader(sink);
  const c10::IValue *values = stack.data() + (stack.size() - facts.arguments.size());
  bool fits = true;
  for (size_t i = 0; i < facts.arguments.size() && fits; ++i) {
    const ArgumentFacts &argument = facts.arguments[i];
    sink.isOtherArgument = false;
    fits = reader.boxed(values[i], argument.role != ArgumentFacts::Role::Attr, argument.isNumber);
    if (sink.isOtherArgument && argument.role == ArgumentFacts::Role::Attr)
      info.arguments[i] = values[i];
  }
  row.op = sink.isOther ? nullptr : row.op;
  if (fits && sink.isOther && deriveResultsOf(matched_)) {
    row.op = &info.op->operator_name();
    derivation.isOther = true;
  }
  if (fits && row.op && accept(row))
    return true;
  undo();
  return false;
}

/// At the first difference from the last call: the sizes may be those of a segment of the graph, which costs
/// less.
bool Frame::tryKnownSizes(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                          torch::jit::Stack *stack) {
  const Derivation &derivation = *deriving();
  if (matched_ == 0 || derivation.isOther || derivation.from.varying->dims.empty())
    return false;
  active_->node->segment.settle();
  return tryAlternatives(op, facts, keys, stack);
}

bool Frame::deriveNext(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                       torch::jit::Stack *stack) {
  const Segment &segment = active_->node->segment;
  size_t row = matched_;
  if (row == segment.size() || &segment.infos[row].op->operator_name() != &op.operator_name() ||
      !deriveRow(facts, keys, *stack))
    return false;
  giveBoxed(segment.rows[row], facts, *stack);
  return true;
}

bool Frame::tryTemplates(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                         torch::jit::Stack *stack) {
  for (Template &from : graph_.templates(&op.operator_name())) {
    if (!isOpen(from, graph_.dynamic()) || from.base->isRefuted())
      continue;
    enter(followerOf(std::move(from)));
    if (deriveNext(op, facts, keys, stack)) {
      if (guess_)
        *guess_ = active_;
      return true;
    }
    leave();
  }
  return false;
}

/// Goes on with a template that has the rows matched so far and goes on with the operator.
bool Frame::tryTemplatesLike(const c10::OperatorHandle &op, const OperatorFacts &facts,
                             c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  Activation &first = *active_;
  const SegmentPtr node = first.node;
  const size_t rows = matched_;
  if (rows == 0)
    return false;
  for (Template &from : graph_.templatesLike(node->segment, rows, &op.operator_name())) {
    bool isTried = first.derivation && first.derivation->from.base == from.base;
    if (isTried || !isOpen(from, graph_.dynamic()) || from.base->isRefuted())
      continue;
    Activation &other = followerOf(std::move(from));
    adoptPrefix(other, rows);
    moveTo(other);
    if (deriveNext(op, facts, keys, stack)) {
      if (rows == node->segment.size() ||
          &node->segment.infos[rows].op->operator_name() != &op.operator_name())
        graph_.noteBranch(node, rows);
      return true;
    }
    moveTo(first);
  }
  return false;
}

/// All rows of the derived segment were matched. The recorded one it stands for.
SegmentPtr Frame::finishDeriving() {
  Derivation &derivation = *deriving();
  counters_.derivations += std::exchange(derivation.isOther, false);
  if (std::exchange(derivation.hasOtherSizes, false))
    graph_.noteDerived(active_->node->segment, derivation.from.base);
  return derivation.from.base;
}

} // namespace graphopt::capture
