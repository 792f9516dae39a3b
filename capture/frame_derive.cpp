// Other sizes and integers than those recorded. A call that differs from a recorded segment only in what may
// vary is put off as any other: a segment for its sizes is worked out from the recorded one, row by row, as
// the operators come, and is found like a recorded one by the next call of these sizes.
#include "capture/dim_marks.h"
#include "capture/frame.h"
#include "capture/shapes.h"
#include "capture/words.h"

#include <algorithm>

namespace graphopt::capture {
namespace {

const DimMark *markOf(const std::vector<DimMark> &marks, size_t dim) {
  auto it = std::find_if(marks.begin(), marks.end(), [&](const DimMark &mark) { return mark.dim == dim; });
  return it == marks.end() ? nullptr : &*it;
}

bool isSpecialSize(int64_t size) { return size == 0 || size == 1; }

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

/// Compares a call's words with a template's row, taking into the derived row what may vary.
struct DerivingSink {
  Frame &frame;
  const Template &from;
  size_t row;
  RowInfo &info; ///< the derived row
  size_t position = 0;
  bool isOther = false, isOtherArgument = false;

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
    bool isOperand = word & kFirstUse ? frame.bindVarying(value, tensor) : frame.slots_[value].is(tensor);
    isOther |= isOperand && frame.derivation_->isOther[value];
    return isOperand;
  }
};

bool Frame::bindVarying(ValueId value, c10::TensorImpl &tensor) {
  const Template &from = derivation_->from;
  SegmentValue &expected = active_->node->segment.values[value];
  if (!sameLayout(expected.metadata, tensor)) {
    std::optional<Metadata> metadata = varied(from, value, tensor, graph_.dynamic());
    if (!metadata)
      return false;
    expected.metadata = std::move(*metadata);
    derivation_->isOther[value] = true;
  }
  return bindAnew(value, tensor);
}

/// Makes a segment like the template, and enters it after `rows` rows of the active one.
void Frame::beginDeriving(Template from, size_t rows) {
  auto node = std::make_shared<SegmentNode>();
  Segment &segment = node->segment = from.base->segment;
  node->isDerived = true;
  derivation_ = std::make_unique<Derivation>();
  derivation_->isOther.resize(segment.values.size());
  if (rows > 0) {
    const Segment &current = active_->node->segment;
    std::copy_n(current.infos.begin(), rows, segment.infos.begin());
    std::copy_n(current.values.begin(), current.valuesBefore(rows), segment.values.begin());
  }
  for (size_t i = 0; i < segment.size(); ++i) {
    segment.rows[i].words = segment.infos[i].words.data();
    segment.rows[i].results = segment.infos[i].results.data();
  }
  for (size_t id = 1; id < segment.valuesBefore(rows); ++id) {
    const Metadata &now = segment.values[id].metadata, &then = from.base->segment.values[id].metadata;
    derivation_->isOther[id] = !(now == then) || now.offset != then.offset;
  }
  derivation_->from = std::move(from);
  if (rows == 0)
    enter(activationOf(node));
  else
    moveTo(activationOf(node));
  next_ = nullptr; // rows to come have the template's sizes: the fast way may not match them
}

bool Frame::deriveResultsOf(size_t row) {
  RunningScope running(isRunning_);
  const SegmentNode &base = *derivation_->from.base;
  std::atomic<ShapeSource> &source = base.shapeSources[row];
  if (source == ShapeSource::Unknown)
    source = shapeSource(base.segment, row);
  Segment &segment = active_->node->segment;
  if (!deriveResults(source, base.segment, row, segment)) {
    if (source == ShapeSource::None)
      host_.onUnknownShape(base.segment.infos[row].facts->name);
    return false;
  }
  for (size_t id = base.segment.valuesBefore(row); id < base.segment.valuesBefore(row + 1); ++id) {
    const Metadata &now = segment.values[id].metadata, &then = base.segment.values[id].metadata;
    derivation_->isOther[id] = !(now == then) || now.offset != then.offset;
  }
  return true;
}

/// The arguments of the next row. False: the row is as it was.
bool Frame::deriveRow(const OperatorFacts &facts, c10::DispatchKeySet keys, const torch::jit::Stack &stack) {
  const Template &from = derivation_->from;
  const Segment &base = from.base->segment;
  Segment &segment = active_->node->segment;
  const size_t row = matched_;
  if (!stateMatches(segment.rows[row], keys))
    return false;
  RowInfo &info = segment.infos[row];
  DerivingSink sink{*this, from, row, info};
  WordReader<DerivingSink> reader(sink);
  const c10::IValue *values = stack.data() + (stack.size() - facts.arguments.size());
  bool fits = true;
  for (size_t i = 0; i < facts.arguments.size() && fits; ++i) {
    const ArgumentFacts &argument = facts.arguments[i];
    sink.isOtherArgument = false;
    fits = reader.boxed(values[i], argument.role != ArgumentFacts::Role::Attr, argument.isNumber);
    if (fits && sink.isOtherArgument)
      info.arguments[i] = values[i];
  }
  if (fits && (!sink.isOther || deriveResultsOf(row)) && accept(segment.rows[row])) {
    next_ = nullptr;
    return true;
  }
  undo();
  info.words = base.infos[row].words;
  info.arguments = base.infos[row].arguments;
  segment.rows[row].words = info.words.data();
  for (size_t id = base.valuesBefore(row); id < base.valuesBefore(row + 1); ++id) {
    segment.values[id].metadata = base.values[id].metadata;
    derivation_->isOther[id] = false;
  }
  return false;
}

bool Frame::deriveNext(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                       torch::jit::Stack *stack) {
  const Segment &segment = active_->node->segment;
  size_t row = matched_;
  if (row == segment.size() || segment.rows[row].op != &op.operator_name() || !deriveRow(facts, keys, *stack))
    return false;
  giveBoxed(segment.rows[row], facts, *stack);
  return true;
}

bool Frame::tryTemplates(const c10::OperatorHandle &op, const OperatorFacts &facts, c10::DispatchKeySet keys,
                         torch::jit::Stack *stack) {
  for (Template &from : graph_.templates(&op.operator_name())) {
    if (!isOpen(from, graph_.dynamic()))
      continue;
    beginDeriving(std::move(from), 0);
    if (deriveNext(op, facts, keys, stack))
      return true;
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
  std::unique_ptr<Derivation> before = std::move(derivation_);
  const SegmentNode *tried = before ? before->from.base.get() : nullptr;
  for (Template &from : graph_.templatesLike(node->segment, rows, &op.operator_name())) {
    if (!isOpen(from, graph_.dynamic()) || from.base.get() == tried)
      continue;
    beginDeriving(std::move(from), rows);
    if (deriveNext(op, facts, keys, stack)) {
      if (rows == node->segment.size() || node->segment.rows[rows].op != &op.operator_name())
        graph_.noteBranch(node, rows);
      return true;
    }
    moveTo(first);
  }
  derivation_ = std::move(before);
  if (derivation_)
    next_ = nullptr;
  return false;
}

/// The derived segment, complete, as the graph has it.
SegmentPtr Frame::finishDeriving() {
  const SegmentPtr &node = active_->node;
  SegmentPtr known = graph_.insertDerived(node, derivation_->from.base);
  counters_.derivations += known == node;
  node->isRetired = known != node; // its placeholders go with this call
  return known;
}

} // namespace graphopt::capture
